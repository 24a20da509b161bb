package main

import (
	"bytes"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// protobufObjects are the objects, as JSON, whose protobuf form is recorded. Between them they use
// every special encoding: times, quantities, int-or-string, bytes, maps, embedded structs,
// pointers to zero values, negative numbers.
var protobufObjects = []string{
	`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","generateName":"p-",
	  "labels":{"a":"b","c":""},"annotations":{"x":"ä"},"creationTimestamp":"2026-01-02T03:04:05Z",
	  "deletionGracePeriodSeconds":0,"finalizers":["f/a","f/b"],"generation":7,
	  "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","controller":false}]},
	 "spec":{"nodeName":"n","priority":-5,"hostNetwork":true,"terminationGracePeriodSeconds":0,
	  "nodeSelector":{"k":"v"},"schedulingGates":[{"name":"g"}],"overhead":{"cpu":"250m"},
	  "containers":[{"name":"c","image":"i","args":["","b"],
	   "ports":[{"containerPort":80,"hostPort":8080,"protocol":"UDP"}],
	   "env":[{"name":"E","value":"1"},{"name":"F","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":false}}}],
	   "resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}},
	   "livenessProbe":{"httpGet":{"path":"/","port":"http"},"periodSeconds":3},
	   "readinessProbe":{"tcpSocket":{"port":81}},
	   "securityContext":{"runAsUser":0,"capabilities":{"add":["A"]}}}],
	  "initContainers":[{"name":"side","image":"i","restartPolicy":"Always"}],
	  "ephemeralContainers":[{"name":"debug","image":"i","targetContainerName":"c"}],
	  "volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}},{"name":"w","configMap":{"name":"m","defaultMode":420}},
	   {"name":"x","projected":{"sources":[{"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.name"}}]}}]}}],
	  "tolerations":[{"key":"t","operator":"Exists","effect":"NoExecute","tolerationSeconds":0}],
	  "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In","values":["a","b"]}]}]}},
	   "podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"podAffinityTerm":{"topologyKey":"z","labelSelector":{"matchLabels":{"a":"b"}}}}]}},
	  "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","minDomains":2}]},
	 "status":{"phase":"Pending","qosClass":"Burstable","nominatedNodeName":"m","podIPs":[{"ip":"1.2.3.4"}],
	  "conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"2026-01-02T03:04:05Z","observedGeneration":3}],
	  "containerStatuses":[{"name":"c","ready":false,"restartCount":0,"image":"","imageID":"","started":false,"state":{"terminated":{"exitCode":-1,"startedAt":null,"finishedAt":"2026-01-02T03:04:05Z"}}}]}}`,
	`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"},"spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule","timeAdded":"2026-01-02T03:04:05Z"}]},
	 "status":{"capacity":{"cpu":"4","nvidia.com/gpu":"2"},"images":[{"names":["a","b"],"sizeBytes":5000000000}],
	  "conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-01-02T03:04:05Z"}]}}`,
	`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"},"spec":{"finalizers":["kubernetes"]}}`,
	`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"a":"AP8="},"type":"Opaque","immutable":false}`,
	`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"a":"b"},"binaryData":{"z":"AAE="}}`,
	`{"kind":"Service","apiVersion":"v1","metadata":{"name":"s"},"spec":{"ports":[{"port":80,"targetPort":"web"},{"port":81,"targetPort":8081}],"selector":{"a":"b"}}}`,
	`{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"v"},"spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"h","volumeAttributes":{"a":"b"}},
	 "claimRef":{"namespace":"ns","name":"c"},"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}}`,
	`{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p","uid":"u"},"target":{"kind":"Node","name":"n"}}`,
	`{"kind":"Event","apiVersion":"v1","metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p"},"reason":"r","count":3,"firstTimestamp":"2026-01-02T03:04:05Z","eventTime":"2026-01-02T03:04:05.000006Z","series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05.120000Z"}}`,
	`{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"e"},"eventTime":"2026-01-02T03:04:05.000006Z","regarding":{"kind":"Pod","name":"p"},"note":"n","reportingController":"c"}`,
	`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2026-01-02T03:04:05.999999Z","leaseTransitions":0}}`,
	`{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"b"},"spec":{"minAvailable":"50%","selector":{"matchExpressions":[{"key":"a","operator":"Exists"}]}},"status":{"disruptedPods":{"p":"2026-01-02T03:04:05Z"},"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}}`,
	`{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"b"},"spec":{"maxUnavailable":0}}`,
	`{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":0,"preconditions":{"uid":"u"}}}`,
	`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Background","dryRun":["All"]}`,
	`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}}`,
	`{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{"name":"s"},"spec":{"serviceName":"s","selector":{},"template":{"spec":{"containers":null}},"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}]}}`,
	`{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"j"},"spec":{"parallelism":0,"template":{"spec":{"containers":[{"name":"c"}],"restartPolicy":"Never"}},"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"In","values":[1,-2,300]},"onPodConditions":null}]}}}`,
	`{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{"name":"p"},"value":-2000000000,"preemptionPolicy":"Never"}`,
	`{"kind":"StorageClass","apiVersion":"storage.k8s.io/v1","metadata":{"name":"s"},"provisioner":"p","allowVolumeExpansion":false,"allowedTopologies":[{"matchLabelExpressions":[{"key":"z","values":["a"]}]}]}`,
	`{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","metadata":{"name":"n"},"spec":{"drivers":[{"name":"d","nodeID":"i","topologyKeys":["z"],"allocatable":{"count":0}}]}}`,
}

type protobufCase struct {
	Object   json.RawMessage `json:"object"`
	Protobuf []byte          `json:"protobuf"`
}

func protobufCases() []any {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme,
		eventsv1.AddToScheme, policyv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			fail(err.Error())
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	serializer := protobuf.NewSerializer(scheme, scheme)
	var cases []any
	for _, text := range protobufObjects {
		var meta metav1.TypeMeta
		if err := json.Unmarshal([]byte(text), &meta); err != nil {
			fail(err.Error())
		}
		object, err := scheme.New(meta.GroupVersionKind())
		if err != nil {
			fail(err.Error())
		}
		if err := json.Unmarshal([]byte(text), object); err != nil {
			fail(err.Error())
		}
		var encoded, compact bytes.Buffer
		if err := serializer.Encode(object, &encoded); err != nil {
			fail(err.Error())
		}
		if err := json.Compact(&compact, []byte(text)); err != nil {
			fail(err.Error())
		}
		cases = append(cases, protobufCase{compact.Bytes(), encoded.Bytes()})
	}
	return cases
}
