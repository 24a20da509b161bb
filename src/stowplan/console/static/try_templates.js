// Objects to begin with: a title and YAML. Names are generated, so that each can be created again.
const pod = (name, spec) => `apiVersion: v1
kind: Pod
metadata:
  generateName: ${name}-
  labels: {app: ${name}}
spec:
${spec}  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
    resources:
      requests: {cpu: 500m, memory: 512Mi}
`;
const node = (name, more, amounts, spec = "") => `apiVersion: v1
kind: Node
metadata:
  generateName: ${name}-
  labels: {topology.kubernetes.io/zone: zone-a${more}}
${spec}status:
  capacity: {cpu: "4", memory: 16Gi, pods: "110"${amounts}}
  allocatable: {cpu: "4", memory: 16Gi, pods: "110"${amounts}}
`;

export const TEMPLATES = {
  pod: ["Pod", pod("web", "")],
  large: ["Pod that fits on no node", pod("large", "").replace("cpu: 500m", 'cpu: "64"')],
  zones: ["Pods spread over zones", pod("spread", `  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {app: spread}}
`)],
  apart: ["Pods that keep apart", pod("alone", `  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app: alone}}
`)],
  gpu: ["Pod with a GPU", pod("train", `  tolerations:
  - {key: example.com/gpu, operator: Exists}
`).replace("memory: 512Mi}", 'memory: 512Mi, example.com/gpu: "1"}\n      limits: {example.com/gpu: "1"}')],
  priority: ["Pod that preempts others", pod("urgent", "  priorityClassName: system-cluster-critical\n")],
  gated: ["Pod with a scheduling gate", pod("gated", `  schedulingGates:
  - {name: example.com/approval}
`)],
  node: ["Node", node("node", "", "")],
  gpuNode: ["Node with GPUs and a taint", node("gpu", ", example.com/gpu: present", ', example.com/gpu: "4"', `spec:
  taints:
  - {key: example.com/gpu, value: present, effect: NoSchedule}
`)],
};
