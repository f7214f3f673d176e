package main

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheReceiverCountsEveryEventOnce(t *testing.T) {
	server := httptest.NewServer(&discard{})
	defer server.Close()
	r := &receiver{address: strings.TrimPrefix(server.URL, "http://")}
	body := []byte(`{"items":[{"auditID":"a"},{"auditID":"b"}]}`)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(body)
	z.Close()
	post := func(body []byte, encoding string, want int) {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, r.url(), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Encoding", encoding)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("answered %d, want %d", answer.StatusCode, want)
		}
	}
	post(body, "identity", http.StatusOK)
	post(zipped.Bytes(), "gzip", http.StatusOK)
	post(body, "gzip", http.StatusBadRequest)
	for _, want := range []counts{{Bodies: 2, Bytes: len(body) + len(zipped.Bytes()), Events: 4}, {}} {
		if got, err := r.counts(); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}
