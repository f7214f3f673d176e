// Auditgen writes an audit log as kube-apiserver does, at a chosen rate and with
// rotation, for demonstrations, load tests and benchmarks: one event of audit.k8s.io/v1
// a line, in the fields, order and spelling of the original.
//
// Exit status: 0 when -count is reached or after SIGTERM or SIGINT, 1 if writing failed,
// 2 for wrong usage. The last line on stderr says what was written.
package main

// This file reads the flags and runs the rest.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// smallestLarge is the least -large-size: what a large event has besides its schema.
const smallestLarge = 8000

// maxRate is far above what is possible, and keeps the pacer's arithmetic in its bounds.
const maxRate = 1_000_000_000

// stepRate is how many events there are in a second of -start's time at -rate 0.
const stepRate = 1000

// options are the flags.
type options struct {
	out         string
	rate, count int
	level       string
	seed        uint64
	start       time.Time // zero: the time is the clock's
	maxSize     size
	maxBackups  int
	largeEvery  int
	largeSize   size
	linger      time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status, once -count is reached or
// ctx is done, and -linger after that.
func run(ctx context.Context, args []string, stdout *os.File, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "auditgen: %v\n", err)
		return 2
	}
	log := &auditLog{file: stdout}
	if opts.out != "-" {
		log, err = openLog(opts.out, int64(opts.maxSize), opts.maxBackups)
		if err != nil {
			fmt.Fprintf(stderr, "auditgen: -out: %v\n", err)
			return 1
		}
	}
	begin := time.Now()
	err = generate(ctx, opts, log)
	if closing := log.file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		fmt.Fprintf(stderr, "auditgen: %v\n", err)
	}
	fmt.Fprintf(stderr, "auditgen: wrote %d events (%d bytes) in %v, %d rotations\n",
		log.lines, log.bytes, time.Since(begin).Round(time.Millisecond), log.rotations)
	if err != nil {
		return 1
	}
	time.Sleep(opts.linger)
	return 0
}

// generate writes events until there are enough or ctx is done. What it made is in the
// file when it returns, unless that failed.
func generate(ctx context.Context, o *options, log *auditLog) error {
	g := newGenerator(o.level, o.seed)
	g.largeEvery, g.largeSize = o.largeEvery, int(o.largeSize)
	pace := newPacer(o.rate)
	var line []byte
	for left := o.count; o.count == 0 || left > 0; {
		due := pace.wait(ctx)
		if due == 0 {
			return nil
		}
		if o.count > 0 {
			due = min(due, left)
			left -= due
		}
		for range due {
			line = g.append(line[:0], o.time(g.made))
			if err := log.add(line); err != nil {
				return err
			}
		}
		if err := log.flush(); err != nil {
			return err
		}
	}
	return nil
}

// time is that of the event with n before it.
func (o *options) time(n int) time.Time {
	switch {
	case o.start.IsZero():
		return time.Now()
	case o.rate == 0:
		return o.start.Add(offset(n, stepRate))
	}
	return o.start.Add(offset(n, o.rate))
}

func parseFlags(args []string, stderr io.Writer) (*options, error) {
	o := &options{largeSize: 1e6, seed: rand.Uint64()}
	levels := []string{metadata, requestLevel, requestResponse, mix}
	fs := flag.NewFlagSet("auditgen", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.out, "out", "-", "append to this `file`; -: stdout")
	fs.IntVar(&o.rate, "rate", 0, "`events` a second; 0: as fast as possible")
	fs.IntVar(&o.count, "count", 0, "stop after `N` events; 0: go on until SIGTERM or SIGINT")
	fs.StringVar(&o.level, "level", mix, "audit `level`: "+strings.Join(levels, ", ")+"; the last takes each kind of request at a level of its own, as most policies do")
	fs.Func("seed", "make the same events as every run with this `number` and the same flags; their times come from -start (default: another one each time)", func(v string) (err error) {
		o.seed, err = strconv.ParseUint(v, 10, 64)
		return err
	})
	fs.Func("start", "`time` of the first event, in RFC 3339; the others follow at -rate, or at 1000 a second with -rate 0 (default: each event has the time at which it is written)", func(v string) (err error) {
		o.start, err = time.Parse(time.RFC3339, v)
		return err
	})
	fs.Var(&o.maxSize, "max-size", "rotate before the file is larger than `bytes` (100M, 10Mi); a longer event has a file of its own; 0: never")
	fs.IntVar(&o.maxBackups, "max-backups", 0, "keep the newest `N` rotated files; 0: all")
	fs.IntVar(&o.largeEvery, "large-every", 0, "make every `N`th event a large one; 0: none")
	fs.Var(&o.largeSize, "large-size", "`bytes` of a large event's line without its end")
	fs.DurationVar(&o.linger, "linger", 0, "stay alive for this `time` after the last event, for readers of the file; a second signal ends it")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errors.New("see the usage above")
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("argument %q: only flags are taken", fs.Arg(0))
	case !slices.Contains(levels, o.level):
		return nil, fmt.Errorf("-level %q: give one of %s", o.level, strings.Join(levels, ", "))
	case o.rate > maxRate:
		return nil, fmt.Errorf("-rate %d: give at most %d", o.rate, maxRate)
	case o.rate < 0 || o.count < 0 || o.maxBackups < 0 || o.largeEvery < 0 || o.linger < 0:
		return nil, errors.New("-rate, -count, -max-backups, -large-every, -linger: give no negative value")
	case o.out == "-" && (o.maxSize > 0 || o.maxBackups > 0):
		return nil, errors.New("-max-size, -max-backups: need -out with a file")
	case o.maxBackups > 0 && o.maxSize == 0:
		return nil, errors.New("-max-backups needs -max-size")
	case o.largeEvery > 0 && o.level == metadata:
		return nil, errors.New("-large-every: an event of level Metadata has no object that could be large")
	case o.largeEvery > 0 && o.largeSize < smallestLarge:
		return nil, fmt.Errorf("-large-size %d: give at least %d", o.largeSize, smallestLarge)
	}
	return o, nil
}
