package checkpoint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// sharesFiles writes to a log in append mode, to a report in place, and to an SQLite database. It
// waits for the file HOLD before it writes the second time.
const sharesFiles = `
import os, sqlite3, sys, time
log = open('log', 'a', buffering=1)
report = open('report', 'w', buffering=1)
db = sqlite3.connect('cache.db', isolation_level=None)
print(db.execute('PRAGMA journal_mode=' + sys.argv[1]).fetchone()[0], flush=True)
db.execute('CREATE TABLE made(by TEXT, n INTEGER)')
db.execute("INSERT INTO made VALUES('mine', 1)")
if len(sys.argv) > 2:
    db.execute('BEGIN IMMEDIATE')
    db.execute("INSERT INTO made VALUES('mine', 2)")
print('mine 1', file=log)
print('report 1', file=report)
print('ready', flush=True)
while not os.path.exists(os.environ['HOLD']): time.sleep(0.01)
if len(sys.argv) > 2:
    db.execute('COMMIT')
else:
    db.execute("INSERT INTO made VALUES('mine', 2)")
print('mine 2', file=log)
print('report 2', file=report)
print(db.execute('SELECT count(*) FROM made').fetchone()[0], flush=True)
`

// otherProgram writes rows into the database. If it is told to stay, it keeps the database open
// until its input ends.
const otherProgram = `
import sqlite3, sys
db = sqlite3.connect('cache.db', isolation_level=None)
for n in range(200): db.execute("INSERT INTO made VALUES('theirs', ?)", (n,))
print('wrote', flush=True)
if sys.argv[1] == 'stays': sys.stdin.read()
db.close()
`

// rows checks the database with another SQLite and returns its rows by their writers.
const rows = `
import sqlite3
db = sqlite3.connect('cache.db')
print(db.execute('PRAGMA integrity_check').fetchone()[0],
      *db.execute('SELECT by, count(*) FROM made GROUP BY by ORDER BY by').fetchall())
`

// sharing starts sharesFiles and waits until it has written once.
func sharing(t *testing.T, daemon *harness.Daemon, arguments ...string) *harness.Job {
	t.Helper()
	job := daemon.Job(t, "/usr/bin/python3", append([]string{"-c", sharesFiles}, arguments...)...)
	job.Hold = true
	job.Start()
	job.WaitLines(2)
	return job
}

// inDir runs a Python program in a job's directory, outside of phos.
func inDir(t *testing.T, job *harness.Job, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command("/usr/bin/python3", append([]string{"-c", program}, arguments...)...)
	command.Dir = job.Dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestSharedDatabase: rows that another process has written into an SQLite database since the
// checkpoint survive a restore, whether it still has the database open or not, and the database
// stays whole. The restored program goes on with it.
func TestSharedDatabase(t *testing.T) {
	daemon := start(t)
	for _, mode := range []string{"wal", "delete"} {
		for _, other := range []string{"ends", "stays"} {
			t.Run(mode+", the other program "+other, func(t *testing.T) { sharedDatabase(t, daemon, mode, other) })
		}
	}
	daemon.Empty()
}

func sharedDatabase(t *testing.T, daemon *harness.Daemon, mode, other string) {
	job := sharing(t, daemon, mode)
	job.Dump()
	command := exec.Command("/usr/bin/python3", "-c", otherProgram, other)
	command.Dir = job.Dir
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = in.Close()
		if err := command.Wait(); err != nil {
			t.Error("the other program:", err)
		}
	}
	if other == "ends" {
		end()
	}
	checked := job.Cli("image", "check", job.Image)
	if !strings.Contains(checked, "cache.db") || !strings.Contains(checked, "a restore keeps it as it is") {
		t.Errorf("image check: %s", checked)
	}
	job.Restore()
	if status := job.Finish(); status != 0 {
		t.Fatalf("exited with status %d: %s", status, job.Stderr())
	}
	if other == "stays" {
		end()
	}
	if got, want := inDir(t, job, rows), "ok ('mine', 2) ('theirs', 200)"; got != want {
		t.Errorf("the database: got %s, want %s", got, want)
	}
	if out := job.Result()["out"]; !strings.HasSuffix(out, "\n202\n") {
		t.Errorf("the restored program counted other rows: %q", out)
	}
}

// TestDatabaseInTransaction: a program that was in a transaction gets its database back, and what
// others have written is in a copy, which is a database, too.
func TestDatabaseInTransaction(t *testing.T) {
	daemon := start(t)
	job := sharing(t, daemon, "wal", "in a transaction")
	job.Dump()
	inDir(t, job, otherProgram, "ends")
	said := job.Cli("--restore", "--detach", "--dir", job.Image)
	job.Release()
	job.WaitGone()
	if got, want := inDir(t, job, rows), "ok ('mine', 2)"; got != want {
		t.Errorf("the database: got %s, want %s\n%s", got, want, said)
	}
	copies, err := filepath.Glob(filepath.Join(job.Dir, "cache.db.phos-*"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("copies: %v, %v\n%s", copies, err, said)
	}
	if err := os.Rename(copies[0], filepath.Join(job.Dir, "cache.db")); err != nil {
		t.Fatal(err)
	}
	if got, want := inDir(t, job, rows), "ok ('mine', 1) ('theirs', 200)"; got != want {
		t.Errorf("the copy: got %s, want %s", got, want)
	}
	daemon.Empty()
}

// decision is an element of files in the output of image check --json.
type decision struct{ Path, Change, Action, Reason string }

// checkFiles returns what image check says of each file, by name.
func checkFiles(t *testing.T, job *harness.Job, flags ...string) map[string]decision {
	t.Helper()
	said, _ := job.TryCli(append(append([]string{"image", "check", "--json"}, flags...), job.Image)...)
	var view struct{ Files []decision }
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&view); err != nil {
		t.Fatalf("%v in %s", err, said)
	}
	found := map[string]decision{}
	for _, d := range view.Files {
		found[filepath.Base(d.Path)] = d
	}
	return found
}

// TestChangedFiles: a log that others have appended to is kept, and of a file that was overwritten
// a copy is left; image check says so in advance, and --files says otherwise. A restore names the
// log that it keeps, with what was appended.
func TestChangedFiles(t *testing.T) {
	daemon := start(t)
	job := sharing(t, daemon, "delete")
	job.Dump()
	for name, d := range checkFiles(t, job) {
		if d.Change != "unchanged" || d.Reason != "" {
			t.Errorf("before anything has changed, %s is %+v", name, d)
		}
	}
	change := func() {
		for name, text := range map[string]string{"log": "mine 1\ntheirs\n", "report": "another program's report\n"} {
			if err := os.WriteFile(filepath.Join(job.Dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	change()
	found := checkFiles(t, job)
	if log := found["log"]; log.Change != "grown" || log.Action != "keep" || log.Reason == "" {
		t.Errorf("log: %+v", log)
	}
	if report := found["report"]; report.Change != "modified" || report.Action != "copy and restore" ||
		report.Reason == "" {
		t.Errorf("report: %+v", report)
	}
	if refused := checkFiles(t, job, "--files=refuse"); refused["report"].Action != "refuse" {
		t.Errorf("with --files=refuse, report: %+v", refused["report"])
	}
	if said, err := job.TryCli("--restore", "--detach", "--dir", job.Image, "--files=refuse"); err == nil ||
		!strings.Contains(said, "report") || !strings.Contains(said, "--files=keep") {
		t.Errorf("--files=refuse: %v: %s", err, said)
	}
	if said, err := job.TryCli("--restore", "--detach", "--dir", job.Image, "--files=maybe"); err == nil {
		t.Errorf("--files=maybe: %s", said)
	}
	for _, test := range []struct{ flag, log, report, copied string }{
		{"", "mine 1\ntheirs\nmine 2\n", "report 1\nreport 2\n", "another program's report\n"},
		{"--json", "mine 1\ntheirs\nmine 2\n", "report 1\nreport 2\n", "another program's report\n"},
		// The program goes on at its position, after nine bytes.
		{"--files=keep", "mine 1\ntheirs\nmine 2\n", "another preport 2\nreport\n", ""},
		{"--files=restore", "mine 1\nmine 2\n", "report 1\nreport 2\n", ""},
	} {
		change()
		restoreChanged(t, job, test.flag, test.log, test.report, test.copied)
	}
	daemon.Empty()
}

// restoreChanged restores a job, and checks its files and the copy of the report at the end.
func restoreChanged(t *testing.T, job *harness.Job, flag, log, report, copied string) {
	t.Helper()
	arguments := []string{"--restore", "--detach", "--dir", job.Image}
	if flag != "" {
		arguments = append(arguments, flag)
	}
	said := job.Cli(arguments...)
	job.Release()
	job.WaitGone()
	got := job.Result()
	if got["log"] != log || got["report"] != report {
		t.Errorf("with %q: log %q, want %q; report %q, want %q", flag, got["log"], log, got["report"], report)
	}
	if !strings.Contains(said, "/report has changed since the checkpoint") {
		t.Errorf("with %q no word of it: %s", flag, said)
	}
	if kept := "/log (7 bytes) (the program"; strings.Contains(said, kept) != (copied != "") {
		t.Errorf("with %q: %q is there: %v, in: %s", flag, kept, copied == "", said)
	}
	copies, _ := filepath.Glob(filepath.Join(job.Dir, "report.phos-*"))
	text := ""
	for _, path := range copies {
		read, err := os.ReadFile(path)
		if err != nil || !strings.Contains(said, path) {
			t.Errorf("copy %s: %v: %s", path, err, said)
		}
		text += string(read)
		_ = os.Remove(path)
	}
	if text != copied {
		t.Errorf("with %q: copy %q, want %q", flag, text, copied)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(job.Dir), "on")); err != nil {
		t.Fatal(err)
	}
}
