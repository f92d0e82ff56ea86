package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

func TestCommandLines(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	t.Setenv(api.SocketVariable, socket)
	for _, test := range []struct {
		name, line     string
		status         int
		stdout, stderr string // what each must hold; empty: nothing at all
	}{
		{"nothing", "", exitDone, "pos_cli --start", ""},
		{"help", "--help", exitDone, "--status", ""},
		{"help on a verb", "help status", exitDone, "--json", ""},
		{"help on a verb, with dashes", "help --stop", exitDone, "--force", ""},
		{"help flag of a verb", "--stop --help", exitDone, "--force", ""},
		{"help on nothing known", "help dance", exitUsage, "", `there is no verb "dance"`},
		{"unknown verb", "--dance", exitUsage, "", `no verb in "--dance"`},
		{"verb without dashes", "env", exitUsage, "", `"env" is written --env`},
		{
			"reserved word", "dump --dir x", exitUsage, "",
			`"dump" is written --dump on this machine; without dashes it is reserved`,
		},
		{"move of no launch", "migrate", exitUsage, "", "name the launch: phos migrate ID"},
		{"move of a launch to nowhere", "migrate train", exitUsage, "", "name the node to which it moves: --to NODE"},
		{"move without a pid", "--migrate --gpus 1", exitUsage, "", "name the program: --pid PID"},
		{"move to nowhere", "--migrate --pid 1", exitUsage, "", "or the machine to which it moves, --to HOST"},
		{"run without a program", "run --quiet", exitUsage, "", "name the program: pos_cli run -- CMD"},
		{"run without phosd", "run -- sleep --help", exitNoDaemon, "", "no phosd runs at " + socket},
		{"run with a wrong policy", "run --checkpoint /c,every=soon -- true", exitUsage, "", `every: "soon" is no time span`},
		{"verb with one dash", "-status", exitUsage, "", `"-status" is written --status`},
		{"word with dashes", "--man", exitUsage, "", `"--man" is written man`},
		{"too many words", "man dump", exitUsage, "", `no manual page "dump"; there are: phosd.8, `},
		{"page", "man pos.yaml.5", exitDone, ".TH POS.YAML 5", ""},
		{"mistyped verb", "--satus --json", exitUsage, "", "did you mean pos_cli --status?"},
		{"mistyped word", "imgae list", exitUsage, "", "did you mean pos_cli image list?"},
		{"mistyped verb of a group", "image lst", exitUsage, "", "did you mean image list?"},
		{"mistyped flag", "--restore --detahc", exitUsage, "", "there is no flag --detahc; did you mean --detach?"},
		{"version", "--version --json", exitDone, `"phosd":null}`, ""},
		{"JSON of a restore that shows output", "--restore --dir x --json", exitUsage, "", "--json needs --detach"},
		{"unknown flag", "--status --colour", exitUsage, "", "pos_cli --status: there is no flag --colour"},
		{"stray word", "--status all", exitUsage, "", `unexpected argument "all"`},
		{"flag before the verb", "--json --status", exitNoDaemon, "", "no phosd runs at " + socket},
		{"no daemon", "--status", exitNoDaemon, "", "pos_cli --start"},
		{"no daemon to stop", "--stop", exitNoDaemon, "", "no phosd runs at " + socket},
		{"group", "image", exitDone, "pos_cli image list /data/ckpt", ""},
		{"help on a verb of a group", "help image prune", exitDone, "--dry-run", ""},
		{"help flag of a verb of a group", "image diff --help", exitDone, "--from", ""},
		{"unknown verb of a group", "image dance", exitUsage, "", `there is no verb "image dance"`},
		{"no directory", "image list", exitUsage, "", "name the image's directory"},
		{
			"flag behind the directory", "image list /nowhere --json", exitFailed, "",
			"open /nowhere: no such file or directory",
		},
		{"no image", "image verify /dev", exitFailed, "", "open image /dev: no image of phos is there"},
		{"nothing to keep", "image prune /nowhere", exitUsage, "", "--keep N"},
		{"no generation", "image prune /nowhere --generation 1,x", exitUsage, "", `"x" is not a generation`},
		{"no daemon to check with", "image check /dev", exitNoDaemon, "", "no phosd runs at " + socket},
		{"clean without a directory", "--clean", exitUsage, "", "--dir DIR"},
		{"clean what is no image", "--clean --dir /dev", exitFailed, "", "no image of phos is there"},
		{"wrong target", "--start --target moon", exitUsage, "", `target "moon" is not known`},
		{"version", "--version", exitDone, "pos_cli ", ""},
		{"shell", "completion tcsh", exitUsage, "", `no completion for "tcsh"`},
		{"manual", "man", exitDone, ".TH POS_CLI 1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := run("pos_cli", strings.Fields(test.line), &stdout, &stderr)
			if status != test.status {
				t.Errorf("status %d, want %d (%s)", status, test.status, stderr.String())
			}
			for _, stream := range []struct{ name, got, want string }{
				{"stdout", stdout.String(), test.stdout}, {"stderr", stderr.String(), test.stderr},
			} {
				if !strings.Contains(stream.got, stream.want) || stream.want == "" && stream.got != "" {
					t.Errorf("%s is %q, want %q in it", stream.name, stream.got, stream.want)
				}
			}
		})
	}
}

// TestVerbsAreDescribed: every verb has help, completion, and a section in the manual page.
func TestVerbsAreDescribed(t *testing.T) {
	var manual, bash, stderr bytes.Buffer
	if run("pos_cli", []string{"man"}, &manual, &stderr) != exitDone ||
		run("pos_cli", []string{"completion", "bash"}, &bash, &stderr) != exitDone {
		t.Fatal(stderr.String())
	}
	all := commands("pos_cli")
	for _, each := range all.Verbs {
		if each.Summary == "" || each.About == "" || each.Setup == nil {
			t.Errorf("verb %s is not described", each.Name)
		}
		synopsis := strings.TrimSpace(each.Invocation() + " " + each.Arguments)
		if !strings.Contains(manual.String(), ".SS "+strings.ReplaceAll(synopsis, "-", `\-`)+"\n") {
			t.Errorf("verb %s is not in the manual", each.Name)
		}
		if !strings.Contains(bash.String(), fmt.Sprintf("verb=%q words=", each.Invocation())) {
			t.Errorf("verb %s is not completed", each.Name)
		}
	}
}

// TestPlaceholders: the help of a flag has its placeholder before the meaning. A meaning that ends
// in it would show it twice: "--load LOAD  how much ...: LOAD".
func TestPlaceholders(t *testing.T) {
	for _, each := range commands("pos_cli").Verbs {
		flags := flag.NewFlagSet(each.Name, flag.ContinueOnError)
		each.Setup(flags)
		flags.VisitAll(func(f *flag.Flag) {
			placeholder, _ := flag.UnquoteUsage(f)
			if placeholder != "" && strings.HasSuffix(f.Usage, ": `"+placeholder+"`") {
				t.Errorf("%s: --%s %s has its placeholder twice: %s", each.Name, f.Name, placeholder, f.Usage)
			}
		})
	}
}

// TestCompletion asks bash what it offers after a command line. Flags of a group's verb are not
// those of another verb with the same last word.
func TestCompletion(t *testing.T) {
	var code, stderr bytes.Buffer
	if run("pos_cli", []string{"completion", "bash"}, &code, &stderr) != exitDone {
		t.Fatal(stderr.String())
	}
	for _, test := range []struct{ line, want, not string }{
		{"", "--dump run images", "list"},
		{"--st", "--start --status --stop", "run"},
		{"--status ", "--json", "--start"},
		{"--pid 7 --dump ", "--dir --json", "--start"},
		{"image ", "list verify", "--dump"},
		{"image list ", "--json", "verify"},
		{"run ", "--checkpoint --gpus", "--order"},
		{"sim run ", "--order", "--checkpoint"},
		{"sim run --order ", "srtf gittins", "--order"},
		{"--trace-resource --subaction ", "start stop", "--pid"},
		{"help ", "image dump run", "list"},
		{"help image ", "list key", "--json"},
		{"run -- gre", "grep", "--checkpoint"},
		{"completion ", "bash zsh fish", "--json"},
		{"--dump --pid ", "4711 4712", "--dir"},
	} {
		words := append([]string{"pos_cli"}, strings.Split(test.line, " ")...)
		script := code.String() + `pos_cli() { printf 'TREE PID
4711 4712
'; }
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
			_pos_cli
			echo "${COMPREPLY[@]}"`
		output, err := exec.Command("bash", append([]string{"-c", script, "bash"}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		got := strings.Fields(string(output))
		for _, want := range strings.Fields(test.want) {
			if !slices.Contains(got, want) {
				t.Errorf("%q: got %q, want %s in it", test.line, got, want)
			}
		}
		if slices.Contains(got, test.not) {
			t.Errorf("%q: got %q, want no %s", test.line, got, test.not)
		}
	}
}

// listen serves a socket whose connections are given to handle.
func listen(t *testing.T, handle func(net.Conn)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "phosd.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handle(conn)
		}
	}()
	return socket
}

// TestPhosdEnds: the error for a phosd that ends during a request says so.
func TestPhosdEnds(t *testing.T) {
	socket := listen(t, func(conn net.Conn) { _ = conn.Close() })
	t.Setenv(api.SocketVariable, socket)
	var stdout, stderr bytes.Buffer
	if status := run("pos_cli", []string{"--status"}, &stdout, &stderr); status != exitNoDaemon ||
		!strings.Contains(stderr.String(), errPhosdEnded.Error()) {
		t.Errorf("status %d, %q; want status %d, %q in it", status, stderr.String(), exitNoDaemon, errPhosdEnded)
	}
}

// TestExplainLost: what the socket does decides, not the text of the error, which is gRPC's.
func TestExplainLost(t *testing.T) {
	answering := &fakePhosd{}
	answering.serve(t)
	preface := `error reading server preface: read unix @->/run/x.sock: use of closed network connection`
	for _, test := range []struct {
		name, socket, text string
		timeout            time.Duration
		want               error
	}{
		{"silent", listen(t, func(conn net.Conn) {
			t.Cleanup(func() { _ = conn.Close() })
		}), "transport: another text", 50 * time.Millisecond, api.ErrNoAnswer},
		{"ended", filepath.Join(t.TempDir(), "none.sock"), preface, time.Minute, errPhosdEnded},
		{"closes connections", listen(t, func(conn net.Conn) { _ = conn.Close() }), preface, time.Minute, errPhosdEnded},
		{"another phosd answers", api.Socket(), preface, time.Minute, errPhosdEnded},
	} {
		t.Run(test.name, func(t *testing.T) {
			lost := &api.Error{Text: test.text, Err: api.ErrNoDaemon}
			if err := explainLost(t.Context(), lost, test.socket, test.timeout); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	refused := &api.NoDaemonError{Socket: "/x", Err: os.ErrPermission}
	if err := explainLost(t.Context(), refused, "/x", time.Minute); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v, want %v", err, os.ErrPermission)
	}
}
