"""Virtual time: an event loop on which waiting takes no time, for simulations."""
