// This file has the objects of requests and responses.

package main

import "fmt"

const (
	// meta is the metadata of an object that exists, as far as its managedFields.
	meta = `"metadata":{"name":"<app>","namespace":"<ns>","uid":"<uid>","resourceVersion":"<version>","generation":<number>,"creationTimestamp":"<created>","labels":{"app.kubernetes.io/name":"<app>","app.kubernetes.io/managed-by":"Helm"},` +
		`"managedFields":[{"manager":"argocd-controller","operation":"Apply","apiVersion":"v1","time":"<created>","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/managed-by":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{},"f:resources":{}}}}}}]}`

	nodeLease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"<node>","namespace":"kube-node-lease","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"<node>","uid":"<uid>"}]},"spec":{"holderIdentity":"<node>","leaseDurationSeconds":40,"renewTime":"<micro>"}}`

	nodeConditions = `"conditions":[{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"<second>","lastTransitionTime":"<created>","reason":"KubeletHasSufficientMemory","message":"kubelet has sufficient memory available"},{"type":"Ready","status":"True","lastHeartbeatTime":"<second>","lastTransitionTime":"<created>","reason":"KubeletReady","message":"kubelet is posting ready status"}]`
	nodePatch      = `{"status":{"$setElementOrder/conditions":[{"type":"MemoryPressure"},{"type":"Ready"}],` + nodeConditions + `}}`
	nodeObject     = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"<node>","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/hostname":"<node>","node.kubernetes.io/exclude-from-external-load-balancers":""},"annotations":{"node.alpha.kubernetes.io/ttl":"0"}},"spec":{"podCIDR":"10.244.<number>.0/24","podCIDRs":["10.244.<number>.0/24"]},` +
		`"status":{"capacity":{"cpu":"<number>","memory":"32780144Ki","pods":"110"},"allocatable":{"cpu":"<number>","memory":"32677744Ki","pods":"110"},` + nodeConditions + `,"addresses":[{"type":"InternalIP","address":"<nodeIP>"},{"type":"Hostname","address":"<node>"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"images":[]}}`

	podSpec     = `"spec":{"volumes":[{"name":"tmp","emptyDir":{}}],"containers":[{"name":"app","image":"registry.example.com/<ns>/<app>:1.<number>.0","args":["--listen=:8080","--ratio=<ratio>","--motd=\u003chi\u003e \u0026 \"welcome\" – 日本 😀"],"ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"<app>","securityContext":{},"schedulerName":"default-scheduler","enableServiceLinks":true}`
	podTemplate = `{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"<app>-","namespace":"<ns>","labels":{"app":"<app>"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"<app>","uid":"<uid>","controller":true,"blockOwnerDeletion":true}]},` + podSpec + `,"status":{}}`
	podStatus   = `"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"<second>"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"<second>"}],"hostIP":"<nodeIP>","podIP":"10.244.<number>.17","podIPs":[{"ip":"10.244.<number>.17"}],"startTime":"<created>","containerStatuses":[{"name":"app","state":{"running":{"startedAt":"<created>"}},"lastState":{},"ready":true,"restartCount":<number>,"image":"registry.example.com/<ns>/<app>:1.<number>.0","imageID":"","started":true}],"qosClass":"Burstable"}`
	podItem     = `"metadata":{"name":"<pod>","generateName":"<app>-","namespace":"<ns>","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>","labels":{"app":"<app>"},"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"<second>","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},"f:phase":{}}},"subresource":"status"}]},` + podSpec + `,` + podStatus
	podPatch    = `{"metadata":{"uid":"<uid>"},` + podStatus + `}`
	podObject   = `{"kind":"Pod","apiVersion":"v1",` + podItem + `}`
	podList     = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"<version>"},"items":[{` + podItem + `},{` + podItem + `}]}`
	binding     = `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"<pod>","namespace":"<ns>","uid":"<uid>"},"target":{"kind":"Node","name":"<node>"}}`
	eventObject = `{"kind":"Event","apiVersion":"v1","metadata":{"name":"<pod>.18a3f0c2b1d4e6f7","namespace":"<ns>"},"involvedObject":{"kind":"Pod","namespace":"<ns>","name":"<pod>","uid":"<uid>","apiVersion":"v1","fieldPath":"spec.containers{app}"},"reason":"BackOff","message":"Back-off restarting failed container app in pod <pod>\n\tlast log: \"exit 1\"","source":{"component":"kubelet","host":"<node>"},"firstTimestamp":"<created>","lastTimestamp":"<second>","count":<number>,"type":"Warning","eventTime":null,"reportingComponent":"kubelet","reportingInstance":"<node>"}`

	deployment = `{"kind":"Deployment","apiVersion":"apps/v1",` + meta + `,"spec":{"replicas":<number>,"selector":{"matchLabels":{"app":"<app>"}},"template":{"metadata":{"labels":{"app":"<app>"}},` + podSpec + `},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":1}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600},"status":{"observedGeneration":<number>,"replicas":<number>,"updatedReplicas":<number>,"conditions":[]}}`
	scale      = `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"<app>","namespace":"<ns>","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>"},"spec":{"replicas":<number>},"status":{"replicas":0,"selector":"app=<app>"}}`
	endpoints  = `{"kind":"Endpoints","apiVersion":"v1","metadata":{"name":"kubernetes","namespace":"default","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>"},"subsets":[{"addresses":[{"ip":"10.0.16.2"}],"ports":[{"name":"https","port":6443,"protocol":"TCP"}]}]}`

	configMapItem = meta + `,"data":{"config.yaml":"listen: \":8080\"\nupstreams:\n  - http://<app>.<ns>.svc?a=1\u0026b=2\n","empty":"","index.html":"\u003ch1\u003eGrüße, 世界 🌍\u003c/h1\u003e \u2028 tab\there \\ back\u0007"}`
	configMap     = `{"kind":"ConfigMap","apiVersion":"v1",` + configMapItem + `}`
	configMapList = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"<version>"},"items":[{` + configMapItem + `},{` + configMapItem + `}]}`
	secret        = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"<app>-tls","namespace":"<ns>","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>"},"data":{"ca.crt":"bm90IGEgcmVhbCBjZXJ0aWZpY2F0ZQ==","tls.key":""},"type":"kubernetes.io/tls"}`

	tokenReview  = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":["https://kubernetes.default.svc"]},"status":{"user":{}}}`
	accessReview = `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":"<ns>","verb":"get","resource":"pods","name":"<pod>"},"user":"system:serviceaccount:<ns>:<app>","groups":["system:serviceaccounts"]},"status":{"allowed":false}}`
	roleBinding  = `{"kind":"ClusterRoleBinding","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"<app>-admin"},"subjects":[{"kind":"ServiceAccount","name":"<app>","namespace":"<ns>"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`

	// Custom resources keep what the client sent: its order of fields, its nulls and its
	// numbers.
	widgetSpec     = `"spec":{"bigint":9007199254740993,"deep":{"a":{"b":{"c":{"d":[[[[<number>]]]]}}}},"exp":1.5e-7,"huge":1e+300,"list":[],"neg":-9223372036854775808,"obj":{},"ratio":<ratio>,"whole":1,"zero":-0}`
	widgetRequest  = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":null,"name":"<app>","namespace":"<ns>"},` + widgetSpec + `,"status":{}}`
	widgetResponse = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"<created>","generation":<number>,"managedFields":[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:deep":{".":{},"f:a":{}},"f:ratio":{}}},"manager":"manager","operation":"Update","time":"<second>"}],"name":"<app>","namespace":"<ns>","resourceVersion":"<version>","uid":"<uid>"},` + widgetSpec + `}`

	crdSpec     = `"spec":{"group":"example.com","names":{"plural":"<app>s","singular":"<app>","kind":"App","listKind":"AppList"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"replicas":{"type":"integer","format":"int32","minimum":0}<fill>}}}}}}],"conversion":{"strategy":"None"}}`
	crdRequest  = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"<app>s.example.com"},` + crdSpec + `,"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}`
	crdResponse = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"<app>s.example.com","uid":"<uid>","resourceVersion":"<version>","generation":1,"creationTimestamp":"<second>","managedFields":[{"manager":"argocd-controller","operation":"Update","apiVersion":"apiextensions.k8s.io/v1","time":"<second>","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:conversion":{".":{},"f:strategy":{}},"f:group":{},"f:names":{},"f:versions":{}}}}]},` + crdSpec + `,"status":{"conditions":[],"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}}`
)

// leaderLease is the lease that instances of a component elect a leader with.
func leaderLease(name string) string {
	return `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"` + name + `","namespace":"kube-system","uid":"<uid>","resourceVersion":"<version>","creationTimestamp":"<created>"},"spec":{"holderIdentity":"control-plane-1_<uid>","leaseDurationSeconds":15,"acquireTime":"<micro>","renewTime":"<micro>","leaseTransitions":<number>}}`
}

// The text of a property of a schema, around its number and its description.
const (
	propertyForm = `,"field%06d":{"description":"`
	description  = "What the controller does with this field once the object is observed: see \\u003chttps://example.com/docs\\u003e. "
	propertyEnd  = `","type":"string","nullable":true}`
)

// shortestProperty is the size of a property with one description.
var shortestProperty = len(fmt.Sprintf(propertyForm, 0)) + len(description) + len(propertyEnd)

// appendProperties appends n bytes of properties, or none if n is less than one takes.
func appendProperties(dst []byte, n int) []byte {
	for i := 0; n >= shortestProperty; i++ {
		long := n
		if n >= 2*shortestProperty {
			long = shortestProperty
		}
		dst = fmt.Appendf(dst, propertyForm, i%1_000_000)
		dst = append(dst, description...)
		for range long - shortestProperty {
			dst = append(dst, '.')
		}
		dst = append(dst, propertyEnd...)
		n -= long
	}
	return dst
}
