// Package peers holds this plugin against kube-apiserver's own code: its
// decoder, its audit backends and its flags. It is a module of its own, so that
// the plugin does not depend on k8s.io/apiserver, and it has tests alone.
package peers
