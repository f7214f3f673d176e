// This file lists what a cluster is asked for, by whom and how often.

package main

import "fmt"

// machine is a node.
type machine struct{ name, ip string }

var (
	machines   = nodes(20)
	namespaces = []string{"default", "shop", "payments", "monitoring", "team-a", "team-b-staging"}
	apps       = []string{"web", "cart", "checkout", "ledger", "prometheus", "search-indexer", "mailer", "fraud-detector"}
)

func nodes(n int) (m []machine) {
	for i := range n {
		m = append(m, machine{fmt.Sprintf("worker-%02d", i+1), fmt.Sprintf("10.0.16.%d", i+11)})
	}
	return m
}

// client is somebody who sends requests.
type client struct {
	user, ip      template
	agent, reason string // reason: why RBAC lets it do so
}

// bound is RBAC's reason for a ClusterRole bound to a subject.
func bound(role, subject string) string {
	return `RBAC: allowed by ClusterRoleBinding \"` + role + `\" of ClusterRole \"` + role + `\" to ` + subject
}

// serviceAccount is a client that runs in a pod.
func serviceAccount(ns, name, agent string) *client {
	user := `"system:serviceaccount:` + ns + `:` + name + `"`
	return &client{
		user: parse(`{"username":` + user + `,"uid":"5b1c2c70-93d6-4bb5-8f19-1b6e7a1f6a52","groups":["system:serviceaccounts","system:serviceaccounts:` + ns + `","system:authenticated"],` +
			`"extra":{"authentication.kubernetes.io/credential-id":["JTI=8a8f1c6e-0c39-4c55-9f3b-cc8a5d0b47e2"],"authentication.kubernetes.io/node-name":["<node>"],"authentication.kubernetes.io/node-uid":["e1f6d1a5-5d29-4d0f-a3f4-6d1c0a8f7b11"],"authentication.kubernetes.io/pod-name":["` + name + `-0"],"authentication.kubernetes.io/pod-uid":["0c9ac1c8-3a0e-4a8f-bb9e-91b4a1f7d3aa"]}}`),
		ip: parse("<nodeIP>"), agent: agent,
		reason: bound(name, `ServiceAccount \"`+name+`/`+ns+`\"`),
	}
}

// component is a part of the control plane.
func component(name string) *client {
	return &client{
		user: parse(`{"username":"system:` + name + `","groups":["system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=7d0c2f6f1a3f0e1b9a9a8d5b56a1d6e3c40f3f2f8a97a3d8e36c4c8fbf0f5d21"]}}`),
		ip:   parse("10.0.16.2"), agent: name + "/v1.36.3 (linux/amd64) kubernetes/7a2f4c1/leader-election",
		reason: bound("system:"+name, `User \"system:`+name+`\"`),
	}
}

var (
	kubelet = &client{
		user: parse(`{"username":"system:node:<node>","groups":["system:nodes","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df78"]}}`),
		ip:   parse("<nodeIP>"), agent: "kubelet/v1.36.3 (linux/amd64) kubernetes/7a2f4c1",
	}
	manager   = component("kube-controller-manager")
	scheduler = component("kube-scheduler")
	apiserver = &client{
		user: parse(`{"username":"system:apiserver","uid":"bb4d78f0-414b-449a-8c4b-b0d981abe28d","groups":["system:authenticated","system:masters"]}`),
		ip:   parse("::1"), agent: "kube-apiserver/v1.36.3 (linux/amd64) kubernetes/7a2f4c1",
	}
	admin = &client{
		user: parse(`{"username":"kubernetes-admin","groups":["kubeadm:cluster-admins","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"]}}`),
		ip:   parse("192.0.2.10"), agent: "kubectl/v1.36.3 (linux/amd64) kubernetes/7a2f4c1",
		reason: bound("kubeadm:cluster-admins", `Group \"kubeadm:cluster-admins\"`),
	}
	developer = &client{
		user: parse(`{"username":"oidc:zoë.müller@example.com","groups":["oidc:entwicklung \u0026 betrieb","system:authenticated"],"extra":{"example.com/teams":["チーム-a","\u003cnone\u003e"]}}`),
		ip:   parse("198.51.100.77"), agent: `Lens/6.5 (darwin; arm64) \"Desktop\"`,
		reason: bound("edit", `User \"oidc:zoë.müller@example.com\"`),
	}
	prober = &client{
		user: parse(`{"username":"system:anonymous","groups":["system:unauthenticated"]}`),
		ip:   parse("<nodeIP>"), agent: "kube-probe/1.36",
		reason: bound("system:public-info-viewer", `Group \"system:unauthenticated\"`),
	}
	argo     = serviceAccount("argocd", "argocd-application-controller", "argocd-application-controller/v0.0.0 (linux/amd64) kubernetes/unknown")
	certs    = serviceAccount("cert-manager", "cert-manager", "cert-manager-certificates/v1.18.2 (linux/amd64) cert-manager/0f1a1f0")
	metrics  = serviceAccount("monitoring", "prometheus-k8s", "Prometheus/3.5.0")
	operator = serviceAccount("shop", "widget-operator", "manager/v0.0.0 (linux/arm64) kubernetes/$Format")
)

// call is one kind of request.
type call struct {
	weight int // how often, relative to the others
	by     []*client
	verb   string
	policy string // its level under mix
	uri    template
	ref    template // fields of objectRef; nil: no resource
	status template // fields of responseStatus behind metadata

	forbidden   bool
	annotations string // further ones, each behind a comma

	request, response template // objects; nil: none
}

const (
	code200 = `"code":200`
	code201 = `"code":201`
	podRef  = `"resource":"pods","namespace":"<ns>","name":"<pod>","apiVersion":"v1"`
	podURI  = `/api/v1/namespaces/<ns>/pods/<pod>`
	watched = `?allowWatchBookmarks=true\u0026resourceVersion=<version>\u0026timeout=6m17s\u0026timeoutSeconds=377\u0026watch=true`

	panicStatus = `"status":"Failure","message":"APIServer panic'd: runtime error: invalid memory address or nil pointer dereference","reason":"InternalError","code":500`
	violation   = `,"pod-security.kubernetes.io/audit-violations":"would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"app\" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container \"app\" must set securityContext.runAsNonRoot=true)"`
	enforced    = `,"pod-security.kubernetes.io/enforce-policy":"baseline:latest"`
)

// failure is the status of a request that failed.
func failure(code int, reason, message, details string) string {
	return fmt.Sprintf(`"status":"Failure","message":"%s","reason":"%s","details":{%s},"code":%d`, message, reason, details, code)
}

// add makes a call; the texts are templates. An empty request or response means none;
// the response to a failure is its Status.
func add(weight int, policy string, by []*client, verb, uri, ref, status, request, response string) *call {
	c := &call{weight: weight, policy: policy, by: by, verb: verb, uri: parse(uri), status: parse(status)}
	if ref != "" {
		c.ref = parse(ref)
	}
	if request != "" {
		c.request = parse(request)
	}
	switch {
	case status[:8] == `"status"`:
		c.response = parse(`{"kind":"Status","apiVersion":"v1","metadata":{},` + status + `}`)
	case response != "":
		c.response = parse(response)
	}
	return c
}

// with adds annotations to a call.
func (c *call) with(annotations string) *call {
	c.annotations = annotations
	return c
}

// refused makes a call one that the authorizer refuses.
func (c *call) refused() *call {
	c.forbidden = true
	return c
}

func by(c ...*client) []*client { return c }

func getLease(weight int, c *client, name string) *call {
	return add(weight, metadata, by(c), "get", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name+"?timeout=5s",
		`"resource":"leases","namespace":"kube-system","name":"`+name+`","apiGroup":"coordination.k8s.io","apiVersion":"v1"`, code200, "", leaderLease(name))
}

func updateLease(weight int, c *client, name string) *call {
	return add(weight, metadata, by(c), "update", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name+"?timeout=5s",
		`"resource":"leases","namespace":"kube-system","name":"`+name+`","uid":"<uid>","apiGroup":"coordination.k8s.io","apiVersion":"v1","resourceVersion":"<version>"`, code200, leaderLease(name), leaderLease(name))
}

// calls follows a cluster of some twenty nodes: leases above all, then what controllers
// and kubelets do, then people.
var calls = []*call{
	// Leases.
	add(2600, metadata, by(kubelet), "update", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/<node>?timeout=10s",
		`"resource":"leases","namespace":"kube-node-lease","name":"<node>","uid":"<uid>","apiGroup":"coordination.k8s.io","apiVersion":"v1","resourceVersion":"<version>"`, code200, nodeLease, nodeLease),
	getLease(700, manager, "kube-controller-manager"),
	getLease(700, scheduler, "kube-scheduler"),
	updateLease(650, manager, "kube-controller-manager"),
	updateLease(650, scheduler, "kube-scheduler"),
	// Nodes and pods.
	add(500, requestResponse, by(kubelet), "patch", "/api/v1/nodes/<node>/status?timeout=10s",
		`"resource":"nodes","name":"<node>","apiVersion":"v1","subresource":"status"`, code200, nodePatch, nodeObject),
	add(700, requestLevel, by(kubelet), "get", `/api/v1/nodes/<node>?resourceVersion=0\u0026timeout=10s`,
		`"resource":"nodes","name":"<node>","apiVersion":"v1"`, code200, "", nodeObject),
	add(450, requestResponse, by(kubelet), "patch", podURI+"/status", podRef+`,"subresource":"status"`, code200, podPatch, podObject),
	add(350, requestLevel, by(kubelet, argo), "get", podURI, podRef, code200, "", podObject),
	add(120, requestLevel, by(kubelet, argo), "get", podURI, podRef,
		failure(404, "NotFound", `pods \"<pod>\" not found`, `"name":"<pod>","kind":"pods"`), "", ""),
	add(120, requestResponse, by(manager), "create", "/api/v1/namespaces/<ns>/pods", `"resource":"pods","namespace":"<ns>","apiVersion":"v1"`, code201, podTemplate, podObject).with(violation + enforced),
	add(15, requestResponse, by(manager), "create", "/api/v1/namespaces/<ns>/pods", `"resource":"pods","namespace":"<ns>","apiVersion":"v1"`,
		failure(403, "Forbidden", `pods \"<pod>\" is forbidden: violates PodSecurity \"baseline:latest\": hostNetwork (host namespaces)`, `"name":"<pod>","kind":"pods"`), podTemplate, "").with(enforced),
	add(120, requestResponse, by(scheduler), "create", podURI+"/binding?timeout=15s", podRef+`,"subresource":"binding"`, code201, binding, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`),
	add(100, requestResponse, by(kubelet), "delete", podURI, podRef, code200, `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/__internal","gracePeriodSeconds":0,"preconditions":{"uid":"<uid>"}}`, podObject),
	add(300, metadata, by(manager, kubelet, operator), "create", "/api/v1/namespaces/<ns>/events", `"resource":"events","namespace":"<ns>","name":"<pod>.18a3f0c2b1d4e6f7","apiVersion":"v1"`, code201, eventObject, eventObject),
	// Controllers and operators.
	add(250, requestResponse, by(manager), "update", "/apis/apps/v1/namespaces/<ns>/deployments/<app>/status",
		`"resource":"deployments","namespace":"<ns>","name":"<app>","uid":"<uid>","apiGroup":"apps","apiVersion":"v1","resourceVersion":"<version>","subresource":"status"`, code200, deployment, deployment),
	add(60, requestResponse, by(manager, argo), "update", "/apis/apps/v1/namespaces/<ns>/deployments/<app>",
		`"resource":"deployments","namespace":"<ns>","name":"<app>","uid":"<uid>","apiGroup":"apps","apiVersion":"v1","resourceVersion":"<version>"`,
		failure(409, "Conflict", `Operation cannot be fulfilled on deployments.apps \"<app>\": the object has been modified; please apply your changes to the latest version and try again`, `"name":"<app>","group":"apps","kind":"deployments"`), deployment, ""),
	add(120, requestResponse, by(argo), "patch", `/apis/apps/v1/namespaces/<ns>/deployments/<app>?fieldManager=argocd-controller\u0026force=true`,
		`"resource":"deployments","namespace":"<ns>","name":"<app>","apiGroup":"apps","apiVersion":"v1"`, code200, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"<app>","namespace":"<ns>"},"spec":{"replicas":<number>}}`, deployment),
	add(200, requestResponse, by(operator), "update", "/apis/example.com/v1/namespaces/<ns>/widgets/<app>",
		`"resource":"widgets","namespace":"<ns>","name":"<app>","uid":"<uid>","apiGroup":"example.com","apiVersion":"v1","resourceVersion":"<version>"`, code200, widgetRequest, widgetResponse),
	add(350, metadata, by(argo, certs, operator), "get", "/api/v1/namespaces/<ns>/configmaps/<app>",
		`"resource":"configmaps","namespace":"<ns>","name":"<app>","apiVersion":"v1"`, code200, "", configMap),
	add(90, metadata, by(argo, developer), "update", `/api/v1/namespaces/<ns>/configmaps/<app>?fieldManager=kubectl-edit\u0026fieldValidation=Strict`,
		`"resource":"configmaps","namespace":"<ns>","name":"<app>","uid":"<uid>","apiVersion":"v1","resourceVersion":"<version>"`, code200, configMap, configMap),
	add(120, metadata, by(certs, metrics), "get", "/api/v1/namespaces/<ns>/secrets/<app>-tls", `"resource":"secrets","namespace":"<ns>","name":"<app>-tls","apiVersion":"v1"`, code200, "", secret),
	add(150, metadata, by(metrics, apiserver), "create", "/apis/authentication.k8s.io/v1/tokenreviews", `"resource":"tokenreviews","apiGroup":"authentication.k8s.io","apiVersion":"v1"`, code201, tokenReview, tokenReview),
	add(150, requestResponse, by(metrics, certs), "create", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `"resource":"subjectaccessreviews","apiGroup":"authorization.k8s.io","apiVersion":"v1"`, code201, accessReview, accessReview),
	add(80, requestLevel, by(apiserver), "get", "/api/v1/namespaces/default/endpoints/kubernetes", `"resource":"endpoints","namespace":"default","name":"kubernetes","apiVersion":"v1"`, code200, "", endpoints).with(`,"k8s.io/deprecated":"true"`),
	// Lists and watches.
	add(300, requestLevel, by(admin, developer, argo), "list", `/api/v1/namespaces/<ns>/pods?labelSelector=app%3D<app>\u0026limit=500`, `"resource":"pods","namespace":"<ns>","apiVersion":"v1"`, code200, "", podList),
	add(120, requestLevel, by(kubelet), "watch", "/api/v1/pods"+watched+`\u0026fieldSelector=spec.nodeName%3D<node>`, `"resource":"pods","apiVersion":"v1"`, code200, "", ""),
	add(120, metadata, by(argo, certs, manager), "watch", "/api/v1/namespaces/<ns>/configmaps"+watched, `"resource":"configmaps","namespace":"<ns>","apiVersion":"v1"`, code200, "", ""),
	// People.
	add(25, requestResponse, by(admin, developer), "patch", "/apis/apps/v1/namespaces/<ns>/deployments/<app>?fieldManager=kubectl-patch",
		`"resource":"deployments","namespace":"<ns>","name":"<app>","apiGroup":"apps","apiVersion":"v1"`, code200, `[{"op":"replace","path":"/spec/replicas","value":<number>},{"op":"remove","path":"/metadata/labels/a~1b"}]`, deployment),
	add(15, requestResponse, by(admin), "patch", "/apis/apps/v1/namespaces/<ns>/deployments/<app>/scale",
		`"resource":"deployments","namespace":"<ns>","name":"<app>","apiGroup":"apps","apiVersion":"v1","subresource":"scale"`, code200, `{"spec":{"replicas":<number>}}`, scale),
	add(25, requestLevel, by(admin, developer), "create", podURI+`/exec?command=sh\u0026command=-c\u0026command=cat+%2Fetc%2Fpasswd+%7C+grep+%22root%22\u0026container=app\u0026stdin=true\u0026stdout=true\u0026tty=true`,
		podRef+`,"subresource":"exec"`, `"code":101`, "", ""),
	add(40, metadata, by(developer), "list", "/api/v1/namespaces/<ns>/secrets?limit=500", `"resource":"secrets","namespace":"<ns>","apiVersion":"v1"`,
		failure(403, "Forbidden", `secrets is forbidden: User \"oidc:zoë.müller@example.com\" cannot list resource \"secrets\" in API group \"\" in the namespace \"<ns>\"`, `"kind":"secrets"`), "", "").refused(),
	add(10, metadata, by(admin), "deletecollection", "/api/v1/namespaces/<ns>/configmaps?labelSelector=app%3D<app>", `"resource":"configmaps","namespace":"<ns>","apiVersion":"v1"`, code200, `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/__internal","propagationPolicy":"Background"}`, configMapList),
	add(5, requestResponse, by(admin), "create", `/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?fieldManager=kubectl-create\u0026fieldValidation=Strict`,
		`"resource":"clusterrolebindings","name":"<app>-admin","apiGroup":"rbac.authorization.k8s.io","apiVersion":"v1"`, code201, roleBinding, roleBinding),
	// No resource.
	add(500, metadata, by(prober), "get", "/readyz", "", code200, "", ""),
	add(300, metadata, by(prober), "get", "/livez?exclude=etcd", "", code200, "", ""),
	add(5, metadata, by(prober), "get", "/readyz?verbose", "", `"code":500`, "", ""),
	add(40, metadata, by(admin, developer), "get", `/openapi/v3/apis/apps/v1?hash=0D6C7F2E\u0026timeout=32s`, "", `"code":304`, "", ""),
}

// large is the call of large events.
var large = add(0, requestResponse, by(argo), "create", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldManager=argocd-controller",
	`"resource":"customresourcedefinitions","name":"<app>s.example.com","apiGroup":"apiextensions.k8s.io","apiVersion":"v1"`, code201, crdRequest, crdResponse)

// mixture has each call as often as its weight says.
var mixture = func() (all []*call) {
	for _, c := range calls {
		for range c.weight {
			all = append(all, c)
		}
	}
	return all
}()
