"""StaticPlacement: pods go to the nodes that are labelled for them."""
