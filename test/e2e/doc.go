// Package e2e holds the end-to-end tests: the built library in a host, an audit
// log on one side, a receiver on the other, and the receiver's verdict.
//
// Each scenario runs on the bundled host (tools/flbhost) and, if the environment
// variable FLUENT_BIT names a fluent-bit or one is on PATH, on that as well.
// Further variables: PLUGIN_SO, the library to test instead of building one;
// AUDIT_DATA, a folder with audit-metadata.log.gz and
// audit-requestresponse.log.gz to use instead of the excerpts in testdata;
// E2E_LONG=1, outages and repetitions at full length, and the scenarios in which a real
// Fluent Bit reads a log again; CHAOS=1, the fault bench at full width and length, whose
// table goes to the file that CHAOS_TABLE names.
package e2e
