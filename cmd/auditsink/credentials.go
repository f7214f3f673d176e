// This file decides who may post.

package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// credentials is what a request must bring. Both files are read again for each
// request, so that what they demand can change meanwhile.
type credentials struct {
	bearerTokenFile string // holds the token
	basicAuthFile   string // holds user:password
}

// challenge is the WWW-Authenticate of a refusal (RFC 9110, section 11.6.1); empty: no
// credentials are asked for.
func (c credentials) challenge() string {
	switch {
	case c.bearerTokenFile != "":
		return "Bearer"
	case c.basicAuthFile != "":
		return `Basic realm="audit"`
	}
	return ""
}

// allow reports whether r brings what the file holds now. No error holds a credential.
func (c credentials) allow(r *http.Request) (bool, error) {
	switch {
	case c.bearerTokenFile != "":
		want, err := readSecret("-bearer-token-file", c.bearerTokenFile)
		if err != nil {
			return false, err
		}
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		return strings.EqualFold(scheme, "Bearer") && same(token, want), nil
	case c.basicAuthFile != "":
		want, err := readSecret("-basic-auth-file", c.basicAuthFile)
		if err != nil {
			return false, err
		}
		user, password, ok := r.BasicAuth()
		return ok && same(user+":"+password, want), nil
	}
	return true, nil
}

// check finds what is wrong with the file before the first request does.
func (c credentials) check() error {
	if c.bearerTokenFile != "" {
		_, err := readSecret("-bearer-token-file", c.bearerTokenFile)
		return err
	}
	if c.basicAuthFile != "" {
		secret, err := readSecret("-basic-auth-file", c.basicAuthFile)
		if err == nil && !strings.Contains(secret, ":") {
			err = fmt.Errorf("-basic-auth-file: %q does not hold user:password", c.basicAuthFile)
		}
		return err
	}
	return nil
}

// readSecret reads a file without the line break at its end. An empty one is an error:
// it would let in whoever brings nothing.
func readSecret(flag, file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s: %q is empty", flag, file)
	}
	return secret, nil
}

// same compares in a time that tells nothing of either.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
