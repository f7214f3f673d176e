// This file makes a destination of a kubeconfig.

package webhook

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// fromKubeconfig makes the destination of cfg.ConfigFile. It is complete if nothing
// was added to f.
func (cfg *Config) fromKubeconfig(f *faults) *destination {
	name := fmt.Sprintf("Webhook_Config_File %q", cfg.ConfigFile)
	for _, k := range cfg.kubeconfigKeys() {
		if k.set {
			f.add(fault(k.key, "set, together with %s: write %s into that file, or leave %s out", name, k.instead, k.key))
		}
	}

	cluster, rc, err := loadKubeconfig(cfg.ConfigFile)
	if err != nil {
		f.add(fault(name, "%w", err))
		return nil
	}
	d := &destination{
		names: names{
			url: name + ": server", ca: name + ": certificate-authority", cert: name + ": client-certificate",
			key: name + ": client-key", token: name + ": tokenFile", serverName: name + ": tls-server-name",
			user:        "the username in Webhook_Config_File",
			credentials: "the username and password of its user",
			redirect:    "set the server in Webhook_Config_File to where it leads",
			none:        "no credentials are sent: the user of Webhook_Config_File has none, or its server is not https",
		},
		rest:  rc,
		proxy: http.ProxyFromEnvironment,
	}
	// Not rc.Host, which has lost the query.
	d.target, err = parseURL(d.names, cluster.Server)
	f.add(err)
	if cluster.ProxyURL != "" {
		proxy, err := parseProxy(name+": proxy-url", cluster.ProxyURL)
		f.add(err)
		d.useProxy(proxy)
	}
	if rc.Insecure && (rc.CAFile != "" || len(rc.CAData) > 0) {
		f.add(fault(name+": insecure-skip-tls-verify", "true, together with certificate-authority: no certificate would be checked against it; keep one of the two"))
	}
	d.checkFiles(f)
	switch {
	case rc.BearerTokenFile != "":
		// The file goes before the token beside it. It is read here and not by
		// client-go, see newRoundTripper.
		d.tokenFile = rc.BearerTokenFile
		rc.BearerToken, rc.BearerTokenFile = "", ""
	case rc.BearerToken != "":
		if i := badTokenByte(rc.BearerToken); i >= 0 {
			f.add(fault(name+": token", "has a space, a line break or another character that a token cannot have after %d bytes", i))
		}
	}
	return d
}

// loadKubeconfig reads a kubeconfig as kube-apiserver's webhooks do: this file only, its
// current context, relative paths resolved. Nothing is merged into it.
func loadKubeconfig(file string) (*api.Cluster, *rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
	kubeconfig, err := rules.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: give a readable kubeconfig", err)
	}

	// clientcmd would go on with nothing where a name is missing.
	if kubeconfig.CurrentContext == "" {
		return nil, nil, errors.New("has no current-context: name the context to use there")
	}
	context := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if context == nil {
		return nil, nil, fmt.Errorf("current-context %q is not among its contexts: name one that is", kubeconfig.CurrentContext)
	}
	cluster := kubeconfig.Clusters[context.Cluster]
	if cluster == nil {
		return nil, nil, fmt.Errorf("cluster %q of context %q is not among its clusters: name one that is", context.Cluster, kubeconfig.CurrentContext)
	}
	if cluster.Server == "" {
		return nil, nil, fmt.Errorf("cluster %q has no server: give the webhook's address there", context.Cluster)
	}
	user := kubeconfig.AuthInfos[context.AuthInfo]
	if user == nil {
		if context.AuthInfo != "" {
			return nil, nil, fmt.Errorf("user %q of context %q is not among its users: name one that is, or none", context.AuthInfo, kubeconfig.CurrentContext)
		}
		user = api.NewAuthInfo()
	}
	const remedy = "use a token, tokenFile, client certificate, or username and password"
	if user.Exec != nil {
		return nil, nil, fmt.Errorf("user %q gets its credentials from a command (exec), which this plugin does not run inside Fluent Bit: %s", context.AuthInfo, remedy)
	}
	if user.AuthProvider != nil {
		return nil, nil, fmt.Errorf("user %q has an auth-provider, which is not supported: %s", context.AuthInfo, remedy)
	}
	if cluster.ProxyURL != "" {
		// Checked first because clientcmd's error would show its password.
		if _, err := parseProxy("proxy-url", cluster.ProxyURL); err != nil {
			return nil, nil, err
		}
	}
	rc, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	return cluster, rc, nil
}

// kubeconfigKey is a key whose meaning a kubeconfig has a field for.
type kubeconfigKey struct {
	keySet
	instead string
}

func (cfg *Config) kubeconfigKeys() []kubeconfigKey {
	fields := []string{"certificate-authority", "client-certificate", "client-key", "tls-server-name", "insecure-skip-tls-verify"}
	var keys []kubeconfigKey
	for i, k := range cfg.tlsKeys() {
		keys = append(keys, kubeconfigKey{k, fields[i]})
	}
	return append(keys,
		kubeconfigKey{keySet{"Bearer_Token_File", cfg.BearerTokenFile != ""}, "tokenFile"},
		kubeconfigKey{keySet{"HTTP_User", cfg.Username != ""}, "username"},
		kubeconfigKey{keySet{"HTTP_Passwd", cfg.Password != ""}, "password"},
		kubeconfigKey{keySet{"Proxy_URL", cfg.ProxyURL != ""}, "proxy-url"},
	)
}
