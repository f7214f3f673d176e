package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// This file says what was measured on what, and how.

// circumstances are the lines above the table.
func circumstances(o options) string {
	cpu := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name\t: "); ok {
			cpu, _, _ = strings.Cut(rest, "\n")
		}
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	fluentBit := "no Fluent Bit"
	if o.fluentBit != "" {
		if text, err := output(o.fluentBit, "--version"); err == nil {
			fluentBit, _, _ = strings.Cut(text, "\n")
		}
	}
	commit := "an unknown commit"
	if text, err := output("git", "describe", "--always", "--dirty"); err == nil {
		commit = strings.TrimSpace(text)
	}
	size := "Inputs of full size"
	if o.scale > 1 {
		size = fmt.Sprintf("**Inputs of 1/%d of their size: a trial**", o.scale)
	}
	return fmt.Sprintf("Measured on %s: %d × %s, Linux %s, %s, %s, out_k8saudit %s. %s. Repetitions: %d.\n\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), cpu, strings.TrimSpace(string(kernel)), fluentBit,
		runtime.Version(), commit, size, o.reps)
}

// stepsMethod is what stands above the table of steps.
const stepsMethod = `
What stands between the floor and the plugin, in the same turns as above. Each step is an output in Go with no more than it says: up to the plugin they are one library, bench/floor, that posts bodies of 1 MB with net/http and neither retries nor remembers. What the plugin adds to the step before it is batches, the account of every event, deadlines and answers.

`

// method is the lines below the table.
const method = `
How to read it: a figure is the median, with the quartiles in brackets. The outputs of a row take turns, null at both ends of each, and each ratio is of one turn. Where the column null has CPU seconds, those are of the whole Fluent Bit process with its null output, and http and k8saudit have what these outputs add to them; the ratio is k8saudit to http, and the floor's to http. The floor is an output in Go that copies the bytes of a chunk, undecoded, into bodies of 1 MB and posts them: for parsed records it sends msgpack, which no webhook reads. In the rows on latency it stands there also with the plugin's check of the lines, and posting by hand: with system calls that block, on the flushing thread, without net/http. A run in which the receiver did not get every event ends the measurement.

The pipeline: in_tail reads a file that is complete (Read_from_Head On, Exit_On_Eof On, Buffer_Max_Size 16M, chunks in memory), Flush 1, Workers 1, Retry_Limit no_limits; http has Format json, k8saudit its defaults, both a loopback receiver in a process of its own that reads, counts and answers 200. Parsed is the json parser with Time_Key stageTimestamp. For chunks of 10 one after another, 10 lines are appended every 5 ms, and Flush is 0.001; for those all at once, each 10 lines are a file with a tag of its own. RssAnon is looked at every 50 ms, with chunks as files. What is not about Fluent Bit ran on the bundled host; a bare POST there is one write and one read in C.

No two events of a run are the same, since the plugin sends an event once: the logs have auditIDs of their own, and where the bundled host reads a file again, it numbers them anew. In the rows against an earlier version, that version takes turns with the plugin, both with the keys Dead_Letter_Dir and State_Dir of fluent-bit.conf and chunks in memory; a run with a single event, its start and its end, is taken off each. The plugin's State_Dir is there a copy of one that a run before has filled with a million other events, so that the ledger is full from the start, and what reading it costs is shown by itself. CPU time is that of the process without Fluent Bit's thread flb-pipeline, which reads and parses and varies by more than the difference; the whole process's follows. RssAnon for each remembered event is the highest of the bundled host's reports on itself, less that with the earlier version; the ledger's own memory is in it. The chunk whose events are done is delivered once and handed over 199 times more. Rotation: a writer renames audit.log; in_tail has Path audit*.log, Rotate_Wait 5, Refresh_Interval 5 and a DB, chunks are files, and the bytes are Fluent Bit's count of what in_tail put into chunks.

`
