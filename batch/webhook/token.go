// This file reads a bearer token from its file.

package webhook

import (
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"k8s.io/client-go/transport"
)

// tokenFile is an oauth2.TokenSource over a file. A file that cannot be read any
// more leaves the last token in use: while the volume is being replaced that token is
// still good, and once it is not the webhook answers 401, whose Error then tells why.
// (client-go's own file source does the same, but writes each failure to stderr.)
type tokenFile struct {
	*rotated[string]
	cached transport.ResettableTokenSource // what requests use: this source, kept for filePeriod
}

func newTokenFile(key, path string, warn func(error)) (*tokenFile, error) {
	content, err := newRotated(func() (string, error) { return readToken(key, path) }, warn)
	if err != nil {
		return nil, err
	}
	t := &tokenFile{rotated: content}
	t.cached = transport.NewCachedTokenSource(t)
	return t, nil
}

// Token reads the file. It never fails.
func (t *tokenFile) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: t.read(), Expiry: time.Now().Add(filePeriod)}, nil
}

// refused makes the next request read the file again. (The reset that client-go's
// round tripper does after a 401 spares a token that was read for that very request, so
// a file replaced just then would be noticed one 401 later.)
func (t *tokenFile) refused() { t.cached.ResetTokenOlderThan(time.Now()) }

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
