package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// owner is what hosts belong to here, in place of a test. It has those methods of testing.TB that
// hosts call; a failure ends the process.
type owner struct {
	testing.TB
	cleanups []func()
	failed   bool
	dir      string
}

// newOwner returns an owner with a directory of its own.
func newOwner() *owner {
	dir, err := os.MkdirTemp("", "phos-hosts-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
	return &owner{dir: dir}
}

// end undoes all that was made, the last first.
func (o *owner) end() {
	for _, each := range slices.Backward(o.cleanups) {
		each()
	}
	_ = os.RemoveAll(o.dir)
}

// fail ends the process.
func (o *owner) fail(text string) {
	fmt.Fprintln(os.Stderr, "console:", text)
	o.end()
	os.Exit(1)
}

// Cleanup implements testing.TB.
func (o *owner) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }

// Errorf implements testing.TB.
func (o *owner) Errorf(format string, arguments ...any) {
	o.failed = true
	o.Logf(format, arguments...)
}

// Failed implements testing.TB.
func (o *owner) Failed() bool { return o.failed }

// Fatal implements testing.TB.
func (o *owner) Fatal(arguments ...any) { o.fail(fmt.Sprint(arguments...)) }

// Fatalf implements testing.TB.
func (o *owner) Fatalf(format string, arguments ...any) { o.fail(fmt.Sprintf(format, arguments...)) }

// Helper implements testing.TB.
func (o *owner) Helper() {}

// Logf implements testing.TB.
func (o *owner) Logf(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "console: "+format+"\n", arguments...)
}

// Skipf implements testing.TB: hosts are not possible here.
func (o *owner) Skipf(format string, arguments ...any) { o.fail(fmt.Sprintf(format, arguments...)) }

// TempDir implements testing.TB: hosts see the directory above it.
func (o *owner) TempDir() string { return filepath.Join(o.dir, "1") }
