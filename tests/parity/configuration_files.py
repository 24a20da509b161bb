"""Configuration files, good and bad, that kube-scheduler and we must judge alike.

Each is the part after `apiVersion` and `kind`. They name only plugins that both sides have, except
in arguments, which are checked whether their plugin runs or not.
"""

from __future__ import annotations

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _args(plugin: str, args: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


def _plugins(sets: str) -> str:
    return f"profiles: [{{plugins: {{{sets}}}}}]"


_FIT = "NodeResourcesFit"
_RATIO = "type: RequestedToCapacityRatio"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

GOOD: dict[str, str] = {
    "nothing": "",
    "nulls": "parallelism:\nprofiles:\nleaderElection: {resourceName: null}\nextenders: null",
    "empty lists": "profiles: []\nextenders: []",
    "zeros that mean unset": "leaderElection: {leaseDuration: 0s, resourceName: ''}\n"
    "clientConnection: {qps: 0, burst: 0, contentType: ''}",
    "whole numbers written as floats": "parallelism: 3.0",
    "yes as a boolean": "enableProfiling: yes\ndelayCacheUntilActive: no",
    "an adaptive percentage": "percentageOfNodesToScore: 0",
    "all nodes": "percentageOfNodesToScore: 100",
    "equal backoffs": "podInitialBackoffSeconds: 7\npodMaxBackoffSeconds: 7",
    "a fractional rate": "clientConnection: {qps: 2.5, burst: 3, kubeconfig: /k}",
    "a negative rate": "clientConnection: {qps: -1}",
    "a lease that nobody takes": "leaderElection: {leaderElect: false, leaseDuration: -1s}",
    "durations": "leaderElection: {leaseDuration: 1m30s, renewDeadline: 1.5s, retryPeriod: 500ms}",
    "two profiles": "profiles: [{schedulerName: a}, {schedulerName: b}]",
    "the profile's percentage": "profiles: [{percentageOfNodesToScore: 30}]",
    "a plugin disabled": _plugins("multiPoint: {disabled: [{name: NodeAffinity}]}"),
    "an unknown plugin disabled": _plugins("filter: {disabled: [{name: Foo}]}"),
    "a point emptied": _plugins("score: {disabled: [{name: '*'}]}"),
    "a weight": _plugins("score: {enabled: [{name: NodeAffinity, weight: 9}]}"),
    "a weight of zero": _plugins("score: {enabled: [{name: NodeAffinity, weight: 0}]}"),
    "a weight at MultiPoint": _plugins(
        "multiPoint: {enabled: [{name: TaintToleration, weight: 8}]}"
    ),
    "a weight where nothing scores": _plugins("filter: {enabled: [{name: NodeName, weight: -3}]}"),
    "a negative weight that comes last": _plugins(
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, "
        "{name: DefaultBinder}, {name: ImageLocality, weight: -2}]}"
    ),
    "few plugins": _plugins(
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, "
        "{name: DefaultBinder}]}"
    ),
    "a plugin only where it filters": _plugins(
        "multiPoint: {disabled: [{name: TaintToleration}]}, "
        "filter: {enabled: [{name: TaintToleration}]}"
    ),
    "the same queue sort twice": "profiles:\n"
    "- {schedulerName: a, plugins: &p {queueSort: {enabled: [{name: PrioritySort}], "
    "disabled: [{name: '*'}]}}}\n- {schedulerName: b, plugins: *p}",
    "arguments of an unknown plugin": _args("Foo", "{x: 1}"),
    "arguments of a plugin without": _args("NodeName", "{x: 1}"),
    "arguments without a plugin": "profiles: [{pluginConfig: [{args: {}}]}]",
    "a plugin without arguments": "profiles: [{pluginConfig: [{name: NodeAffinity}]}]",
    "null arguments": _args("NodeAffinity", "null"),
    "the arguments' type": _args(
        "NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}"
    ),
    "the type in half": _args("NodeAffinity", "{kind: NodeAffinityArgs}"),
    "added affinity": _args(
        "NodeAffinity",
        f"{{addedAffinity: {{{_REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: "
        "[{key: a, operator: Gt, values: ['3']}]}]}}}",
    ),
    "an invalid term without weight": _args(
        "NodeAffinity",
        f"{{addedAffinity: {{{_PREFERRED}: [{{weight: 0, preference: {{matchExpressions: "
        "[{key: a, operator: X}]}}]}}",
    ),
    "fit with all fields": _args(
        _FIT,
        "{ignoredResources: [example.com/a], ignoredResourceGroups: [example.com], "
        "scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, {name: x, weight: 100}]}}",
    ),
    "a nameless resource": _args(_FIT, "{scoringStrategy: {type: MostAllocated, resources: [{}]}}"),
    "a shape": _args(
        _FIT,
        f"{{scoringStrategy: {{{_RATIO}, requestedToCapacityRatio: {{shape: "
        "[{utilization: 0, score: 10}, {utilization: 100}]}}}",
    ),
    "balanced resources": _args(
        "NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: a, weight: 1}]}"
    ),
    "spreading by a list": _args(
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, "
        "whenUnsatisfiable: ScheduleAnyway, minDomains: 3}]}",
    ),
    "an empty list of constraints": _args("PodTopologySpread", "{defaultingType: List}"),
    "no time to bind": _args("VolumeBinding", "{bindTimeoutSeconds: 0}"),
    "timeouts of devices": _args("DynamicResources", "{filterTimeout: 0s, bindingTimeout: 1s}"),
    "one of two candidates' bounds": _args("DefaultPreemption", "{minCandidateNodesAbsolute: 0}"),
    "affinity's weight": _args("InterPodAffinity", "{hardPodAffinityWeight: 0}"),
    "an extender": "extenders: [{urlPrefix: 'http://x', filterVerb: f, prioritizeVerb: p, "
    "weight: 2, httpTimeout: 1s, enableHTTPS: true, tlsConfig: {insecure: true, caData: aGk=}, "
    "managedResources: [{name: example.com/a, ignoredByScheduler: true}], ignorable: true}]",
    "an extender that says little": "extenders: [{}]",
}

BAD: dict[str, str] = {
    "an unknown field": "paralelism: 3",
    "unknown fields everywhere": "zebra: 1\nleaderElection: {leaderElected: true}\n"
    "clientConnection: {qqps: 1}\nprofiles: [{name: x, plugins: {filtr: {}, score: {enable: []}}, "
    "pluginConfig: [{nam: x}]}]\nextenders: [{url: x, tlsConfig: {ca: x}}]",
    "unknown arguments of several plugins": "zebra: 1\nprofiles: [{pluginConfig: ["
    "{name: NodeAffinity, args: {added: 1, affinity: 2}}, "
    "{name: VolumeBinding, args: {time: 1}}]}]",
    "unknown fields inside arguments": _args(
        _FIT, "{scoringStrategy: {typ: x, resources: [{nam: cpu}]}}"
    ),
    "unknown fields of API objects": _args("NodeAffinity", "{addedAffinity: {required: {}}}"),
    "a key that is there twice": "parallelism: 1\nparallelism: 2",
    "a word for a number": "parallelism: many",
    "a number for a word": "profiles: [{schedulerName: 3}]",
    "half a number": "parallelism: 1.5",
    "a large number": "parallelism: 4294967296",
    "a word for a boolean": "enableProfiling: 'yes'",
    "a number for a duration": "leaderElection: {leaseDuration: 15}",
    "a duration without unit": "leaderElection: {leaseDuration: '15'}",
    "an extender's number for a duration": "extenders: [{httpTimeout: 3}]",
    "data that is no base64": "extenders: [{tlsConfig: {caData: '%%'}}]",
    "a number for a list": "profiles: 3",
    "a number for a profile": "profiles: [3]",
    "a list for a mapping": "profiles: [{plugins: {score: []}}]",
    "a mapping for a list": "extenders: {}",
    "a list for arguments": _args("NodeAffinity", "[]"),
    "a word for an argument": _args("VolumeBinding", "{bindTimeoutSeconds: '3'}"),
    "arguments of another plugin": _args("NodeAffinity", "{kind: NodeResourcesFitArgs}"),
    "arguments of no kind": _args("NodeAffinity", "{kind: Foo}"),
    "arguments of another version": _args("NodeAffinity", "{apiVersion: v1}"),
    "no parallelism": "parallelism: 0",
    "many mistakes": "parallelism: -1\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\n"
    "podMaxBackoffSeconds: -1\nclientConnection: {burst: -1}\n"
    "leaderElection: {leaseDuration: -1s, renewDeadline: 5s, resourceLock: x}",
    "a percentage below zero": "percentageOfNodesToScore: -1",
    "a profile's percentage": "profiles: [{percentageOfNodesToScore: 101}]",
    "backoffs the wrong way round": "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4",
    "a lock of another kind": "leaderElection: {resourceLock: endpoints}",
    "a short lease": "leaderElection: {leaseDuration: 10s, renewDeadline: 10s}",
    "a profile without a name": "profiles: [{schedulerName: a}, {}]",
    "an empty name": "profiles: [{schedulerName: ''}]",
    "one name twice": "profiles: [{schedulerName: a}, {schedulerName: a}]",
    "two queue sorts": "profiles:\n"
    "- {schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}\n"
    "- {schedulerName: b}",
    "a removed plugin": _plugins("filter: {enabled: [{name: EBSLimits}]}"),
    "a removed plugin's arguments": _args("GCEPDLimits", "{}"),
    "arguments twice": "profiles: [{pluginConfig: [{name: Foo}, {name: Foo}]}]",
    "an unknown plugin": _plugins("filter: {enabled: [{name: Foo}]}"),
    "an unknown plugin at MultiPoint": _plugins("multiPoint: {enabled: [{name: Foo}]}"),
    "a plugin without a name": _plugins("filter: {enabled: [{}]}"),
    "a plugin at another's point": _plugins("score: {enabled: [{name: NodeName}]}"),
    "one plugin twice": _plugins("filter: {enabled: [{name: NodeName}, {name: NodeName}]}"),
    "one plugin twice at MultiPoint": _plugins(
        "multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}"
    ),
    "no queue sort": _plugins("queueSort: {disabled: [{name: '*'}]}"),
    "no binder": _plugins("bind: {disabled: [{name: '*'}]}"),
    "a negative weight": _plugins("score: {enabled: [{name: NodeAffinity, weight: -4}]}"),
    "fit's names": _args(
        _FIT, "{ignoredResources: [a b, a/b/c, '/x', ''], ignoredResourceGroups: [a/b, '-']}"
    ),
    "fit's strategy": _args(
        _FIT, "{scoringStrategy: {type: Most, resources: [{name: a, weight: 101}, {weight: -1}]}}"
    ),
    "a strategy without a type": _args(_FIT, "{scoringStrategy: {}}"),
    "a ratio without a shape": _args(_FIT, f"{{scoringStrategy: {{{_RATIO}}}}}"),
    "a shape without points": _args(
        _FIT, f"{{scoringStrategy: {{{_RATIO}, requestedToCapacityRatio: {{shape: []}}}}}}"
    ),
    "a shape for nobody": _args(
        _FIT, "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {shape: []}}}"
    ),
    "points out of range and order": _args(
        _FIT,
        f"{{scoringStrategy: {{{_RATIO}, requestedToCapacityRatio: {{shape: "
        "[{utilization: 101, score: 11}, {utilization: 3, score: -1}, {utilization: -1}]}}}",
    ),
    "balanced resources twice and heavy": _args(
        "NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: cpu, weight: 2}]}"
    ),
    "affinity's weight too high": _args("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
    "candidates' bounds out of range": _args(
        "DefaultPreemption", "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}"
    ),
    "no candidates": _args(
        "DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"
    ),
    "timeouts of devices out of range": _args(
        "DynamicResources", "{filterTimeout: -1s, bindingTimeout: 999ms}"
    ),
    "a negative time to bind": _args("VolumeBinding", "{bindTimeoutSeconds: -1}"),
    "the shape of a feature that is off": _args("VolumeBinding", "{shape: []}"),
    "constraints without a list": _args(
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}",
    ),
    "constraints in every wrong way": _args(
        "PodTopologySpread",
        "{defaultingType: Lst, defaultConstraints: [{}, {maxSkew: -1, topologyKey: a b, "
        "whenUnsatisfiable: Never, labelSelector: {}}, {maxSkew: 1, topologyKey: a b, "
        "whenUnsatisfiable: Never}]}",
    ),
    "added affinity in many wrong ways": _args(
        "NodeAffinity",
        f"{{addedAffinity: {{{_REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: "
        "[{key: a b, operator: In}, {key: a, operator: Exists, values: [x]}, "
        "{key: a, operator: Lt, values: [x]}], matchFields: [{key: metadata.name, "
        f"operator: Exists}}]}}]}}, {_PREFERRED}: [{{weight: 1, preference: {{matchExpressions: "
        "[{key: a, operator: X}]}}]}}",
    ),
    "wrong arguments of several plugins": "profiles: [{pluginConfig: ["
    "{name: InterPodAffinity, args: {hardPodAffinityWeight: -1}}, "
    "{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}, "
    "{name: DefaultPreemption, args: {minCandidateNodesAbsolute: -1}}]}]",
    "wrong arguments of a disabled plugin": "profiles: [{plugins: {multiPoint: {disabled: "
    "[{name: VolumeBinding}]}}, pluginConfig: [{name: VolumeBinding, args: "
    "{bindTimeoutSeconds: -1}}]}]",
    "an extender without weight": "extenders: [{prioritizeVerb: p}]",
    "two binders": "extenders: [{bindVerb: b}, {bindVerb: b}]",
    "managed resources": "extenders: [{managedResources: [{name: cpu}, {name: a/b/c}, {name: /x}, "
    "{name: kubernetes.io/x}, {name: requests.a.b/c}]}, "
    "{managedResources: [{name: a.b/c}, {name: a.b/c}]}]",
}
