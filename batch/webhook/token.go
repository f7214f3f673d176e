// This file reads a bearer token from its file.

package webhook

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"k8s.io/client-go/transport"
)

// tokenPeriod is how long a token is used before its file is read again. It is
// client-go's value: the kubelet replaces a projected token at 80 % of its life of
// ten minutes or more, so a minute is well within what is left.
const tokenPeriod = time.Minute

// tokenFile is an oauth2.TokenSource over a file. A file that cannot be read any
// more leaves the last token in use: while the volume is being replaced that token is
// still good, and once it is not the webhook answers 401, whose Error then tells why.
// (client-go's own file source does the same, but writes each failure to stderr.)
type tokenFile struct {
	key    string // where it was configured
	path   string
	cached transport.ResettableTokenSource // what requests use: this source, kept for tokenPeriod

	mu   sync.Mutex
	last string
	err  error // of the last reading
}

func newTokenFile(key, path string) *tokenFile {
	t := &tokenFile{key: key, path: path}
	t.cached = transport.NewCachedTokenSource(t)
	return t
}

// Token reads the file.
func (t *tokenFile) Token() (*oauth2.Token, error) {
	token, err := readToken(t.key, t.path)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if err == nil {
		t.last = token
	} else if t.last == "" {
		return nil, err
	}
	return &oauth2.Token{AccessToken: t.last, Expiry: time.Now().Add(tokenPeriod)}, nil
}

// refused makes the next request read the file again. (The reset that client-go's
// round tripper does after a 401 spares a token that was read for that very request, so
// a file replaced just then would be noticed one 401 later.)
func (t *tokenFile) refused() { t.cached.ResetTokenOlderThan(time.Now()) }

// state returns the token in use and why the file could not be read, if it could not.
func (t *tokenFile) state() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.err
}

// readToken reads a token's file, which came from key. Its errors never hold the token.
func readToken(key, file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fault(key, "%w: give a readable file that holds the token", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fault(key, "%q is empty: write the token into it", file)
	}
	if i := badTokenByte(token); i >= 0 {
		return "", fault(key, "%q holds more than one token: a space, a line break or another character that a token cannot have follows after %d bytes", file, i)
	}
	return token, nil
}

// badTokenByte is the index of a byte that a token cannot have, -1 if there is none.
func badTokenByte(token string) int {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return i
		}
	}
	return -1
}
