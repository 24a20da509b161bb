"""An algorithm for `stowplan extender`: pods with a label `rack` go to nodes of that rack."""

from stowplan.extender import Algorithm, ExtenderArgs, ExtenderFilterResult, HostPriority


class Racks(Algorithm):
    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        rack = extender_args.Pod["metadata"].get("labels", {}).get("rack", "")
        result = ExtenderFilterResult()
        for name in extender_args.NodeNames:
            if name.startswith(rack):
                result.NodeNames.append(name)
            else:
                result.FailedNodes[name] = f"node(s) not in rack {rack}"
        return result

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        return [HostPriority(name, int(name[-1])) for name in extender_args.NodeNames]
