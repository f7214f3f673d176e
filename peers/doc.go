// Package peers holds this plugin against kube-apiserver's own code: its
// decoder, its audit backends and its flags. It also measures the plugin against
// that backend, and its reader against what other Go plugins use. It is a module of
// its own, so that the plugin depends on none of these, and it has tests alone.
package peers
