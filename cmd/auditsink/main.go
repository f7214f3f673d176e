// Auditsink is an audit webhook receiver for tests and trials: it stores what it
// accepts before it answers, can be told to fail or to ask for credentials, counts, and
// compares what it got with the audit log that it came from.
//
// On SIGTERM or SIGINT it finishes the requests under way and prints its counts, and
// with -verify the verdict. Exit status: 0, 1 if an event was lost or altered or the
// sink itself failed, 2 for wrong usage.
package main

// This file reads the flags, starts and stops the rest.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// shutdownTimeout bounds the wait for requests under way at the end.
const shutdownTimeout = 10 * time.Second

// options are the flags that do not belong to the receiver alone.
type options struct {
	listen                    string
	tlsCert, tlsKey, clientCA string
	storeFile, requestsFile   string
	verify                    []string
	quiet                     bool
	receiver                  receiverOptions
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status, once ctx is done or
// -stop-after-events is reached.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "auditsink: %v\n", err)
		return 2
	}
	status, err := serve(ctx, opts, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "auditsink: %v\n", err)
		return 1
	}
	return status
}

func parseFlags(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	r, f := &o.receiver, &o.receiver.faults
	var verify, failStatus, retryAfter string
	fs := flag.NewFlagSet("auditsink", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:9900", "`address` to listen on; port 0 takes a free one and says which")
	fs.StringVar(&o.tlsCert, "tls-cert", "", "serve https with this PEM certificate `file`")
	fs.StringVar(&o.tlsKey, "tls-key", "", "`file` of its private key")
	fs.StringVar(&o.clientCA, "client-ca", "", "demand client certificates signed by those in this `file`")
	fs.StringVar(&r.credentials.bearerTokenFile, "bearer-token-file", "", "answer 401 unless the bearer token is the one in this `file`, read for each request")
	fs.StringVar(&r.credentials.basicAuthFile, "basic-auth-file", "", "answer 401 unless user and password are those in this `file`, as user:password, read for each request")
	fs.StringVar(&o.storeFile, "store", "", "append the accepted events to this `file`, one a line, synced to the disk before the answer; what it holds already counts too")
	fs.StringVar(&o.requestsFile, "requests", "", "append a line for each request to this `file`: when it came, when its answer was ready, the first line in the store that it became, and how many")
	fs.StringVar(&verify, "verify", "", "at the end, compare with these audit logs (`file[,file…]`, gzip or plain; a name may be a pattern, as audit*.log, for a log that was rotated)")
	fs.BoolVar(&r.semantic, "semantic", false, "compare decoded values instead of bytes: order of keys, spelling of numbers and strings, and a missing kind or apiVersion make no difference")
	fs.Func("absent", "top-level `field` that must be absent from every event although the log has it (repeatable, needs -semantic)", func(v string) error {
		r.absent = append(r.absent, v)
		return nil
	})
	fs.BoolVar(&o.quiet, "quiet", false, "print no progress and no counts, only the verdict")
	fs.StringVar(&failStatus, "fail-status", "", "how to fail: a `status` from 300 to 599, cut-before or cut-after (reset the connection before or after reading the body), hang (never answer), or drip (answer byte by byte, without an end); default 503, for -fail-match 400. Alone it fails every request")
	fs.IntVar(&f.first, "fail-first", 0, "fail the first `N` requests")
	fs.IntVar(&f.every, "fail-every", 0, "fail every `N`th request")
	fs.Func("fail-also", "fail every Nth request that does not fail by the flags above, in a way of its own: `N:HOW`, as 5:cut-after (repeatable: the first that fits)", f.addAlso)
	fs.DurationVar(&f.from, "fail-from", 0, "fail from this `time` after the start …")
	fs.DurationVar(&f.length, "fail-for", 0, "… for this `long`; 0: to the end")
	fs.StringVar(&f.match, "fail-match", "", "fail whenever the body contains this `text`")
	fs.StringVar(&retryAfter, "retry-after", "", "Retry-After header `value` of failing answers, but for those of -fail-also")
	fs.BoolVar(&r.storeOnFail, "store-on-fail", false, "store first, then fail")
	fs.DurationVar(&r.delay, "delay", 0, "wait this `long` before each answer")
	fs.DurationVar(&r.gateway.event, "delay-event", 0, "take this `long` for each event of a body, before it is stored")
	fs.DurationVar(&r.gateway.patience, "give-up", 0, "answer 504 after this `long` to a body whose events take longer, and store nothing of it")
	fs.Int64Var(&r.maxBody, "max-body", 100<<20, "refuse larger bodies (`bytes`, after decompression)")
	fs.IntVar(&r.maxBodyStatus, "max-body-status", http.StatusRequestEntityTooLarge, "the `status` for them")
	fs.BoolVar(&r.discard, "discard", false, "read bodies and drop them unseen, for measuring senders")
	fs.IntVar(&r.stopAfter, "stop-after-events", 0, "stop once `N` events are stored")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errors.New("see the usage above")
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("argument %q: only flags are taken", fs.Arg(0))
	}
	if verify != "" {
		o.verify = strings.Split(verify, ",")
	}
	window := false
	fs.Visit(func(fl *flag.Flag) { window = window || fl.Name == "fail-from" || fl.Name == "fail-for" })
	if err := f.set(failStatus, retryAfter, window); err != nil {
		return nil, err
	}
	switch {
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return nil, errors.New("-tls-cert and -tls-key: give both or neither")
	case o.clientCA != "" && o.tlsCert == "":
		return nil, errors.New("-client-ca needs -tls-cert and -tls-key")
	case r.credentials.bearerTokenFile != "" && r.credentials.basicAuthFile != "":
		return nil, errors.New("-bearer-token-file and -basic-auth-file: a request has one Authorization header; give one of the two")
	case len(r.absent) > 0 && !r.semantic:
		return nil, errors.New("-absent needs -semantic: bytes cannot be compared without a field")
	case r.discard && (o.storeFile != "" || o.verify != nil || r.stopAfter > 0 || r.storeOnFail || r.gateway.event > 0):
		return nil, errors.New("-discard looks at no event: it goes with none of -store, -store-on-fail, -verify, -stop-after-events, -delay-event")
	case r.storeOnFail && f.cutsBefore():
		return nil, errors.New("-store-on-fail: with cut-before there is no body to store")
	case r.maxBody < 1:
		return nil, fmt.Errorf("-max-body %d: give at least 1", r.maxBody)
	case r.maxBodyStatus < 300 || r.maxBodyStatus > 599:
		return nil, fmt.Errorf("-max-body-status %d: give a status from 300 to 599", r.maxBodyStatus)
	case r.delay < 0 || r.stopAfter < 0 || r.gateway.event < 0 || r.gateway.patience < 0:
		return nil, errors.New("-delay, -stop-after-events, -delay-event, -give-up: give no negative value")
	case r.gateway.patience > 0 && r.gateway.event == 0:
		return nil, errors.New("-give-up needs -delay-event: without it no body takes long")
	}
	return o, nil
}

// serve runs the receiver until ctx is done, and gives the exit status.
func serve(ctx context.Context, o *options, stdout, stderr io.Writer) (int, error) {
	tlsConfig, err := serverTLS(o)
	if err != nil {
		return 0, err
	}
	if err := o.receiver.credentials.check(); err != nil {
		return 0, err
	}
	r := newReceiver(o.receiver)
	if o.storeFile != "" {
		if r.store, err = openStore(o.storeFile, r.tally.count); err != nil {
			return 0, err
		}
		defer r.store.close()
	}
	if o.requestsFile != "" {
		if r.requests, err = openRequestLog(o.requestsFile); err != nil {
			return 0, err
		}
		defer r.requests.close()
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return 0, fmt.Errorf("-listen: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.stop = stop
	server := &http.Server{
		Handler:           r,
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: time.Minute,
		ConnState:         r.connState,
		ErrorLog:          log.New(io.Discard, "", 0), // a broken handshake is the sender's to report
	}
	fmt.Fprintf(stderr, "auditsink: listening on %s\n", l.Addr())
	r.start()
	progress := startProgress(stderr, !o.quiet && isTerminal(stderr), r.tally.snapshot)

	served := make(chan error, 1)
	go func() {
		if tlsConfig != nil {
			served <- server.ServeTLS(l, "", "")
		} else {
			served <- server.Serve(l)
		}
	}()
	select {
	case <-ctx.Done():
	case err = <-served: // the listener broke
	}
	close(r.stopping) // ends the requests that hang
	finish, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(finish) != nil {
		fmt.Fprintf(stderr, "auditsink: requests still under way after %s were cut\n", shutdownTimeout)
		server.Close()
	}
	progress.stop()
	if err != nil {
		return 0, err
	}
	if !o.quiet {
		r.tally.report(stdout, o.receiver.discard)
	}
	status := 0
	if o.verify != nil {
		v, err := r.tally.verify(o.verify)
		if err != nil {
			return 0, err
		}
		v.report(stdout)
		if v.lost > 0 || v.altered > 0 {
			status = 1
		}
	}
	if r.store != nil {
		return status, r.store.failure()
	}
	return status, nil
}

func serverTLS(o *options) (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("-tls-cert, -tls-key: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if o.clientCA != "" {
		pem, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, fmt.Errorf("-client-ca: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("-client-ca: %q has no PEM certificate", o.clientCA)
		}
	}
	return c, nil
}
