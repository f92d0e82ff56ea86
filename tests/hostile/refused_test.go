package hostile

import (
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scrape returns phosd's metrics as text.
func scrape(t *testing.T, socket string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	response, err := client.Get("http://phosd/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRefusedRequestMarksNothing: requests that are refused before any effect, of a stranger and of
// the owner, do not count as failed checkpoints of the program: an alert may depend on that.
func TestRefusedRequestMarksNothing(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics")
	a, b, d := alice(t), bob(t), start(t, "--metrics-listen=unix:"+socket)
	program := a.programIn(d, "program", "", onGPU+"allocate(1 << 20)\nready()")
	b.mustFail(d, []string{"--dump", "--dir", b.file("image"), "--pid", pid(program)}, "another user")
	b.mustFail(d, []string{"--pre-dump", "--dir", b.file("image"), "--pid", pid(program)}, "another user")
	// A shell of alice's that has started a program, and the command that names the shell.
	cli := a.cli(d, "--pre-dump", "--dir", a.file("image"))
	shell := a.as(exec.Command("/bin/sh", "-c", `"$@" --pid $$; exit $?`, "sh"))
	shell.Args, shell.Env = append(shell.Args, cli.Args...), cli.Env
	if text, err := run(t, shell); err == nil || !strings.Contains(text, "has started the very pos_cli") {
		t.Errorf("alice's shell as the program: %v: %q", err, text)
	}
	if got := a.status(d, program); got.State != "running" || got.Checkpoint.Error != "" {
		t.Errorf("alice's program is %+v, want running, without an error", got)
	}
	for line := range strings.Lines(scrape(t, socket)) {
		if strings.HasPrefix(line, "phos_program_checkpoint_failed") ||
			strings.HasPrefix(line, "phos_checkpoints_total") && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("after refused requests: got metric %q", line)
		}
	}
	// A failure is marked.
	a.mustFail(d, []string{"--pre-dump", "--dir", filepath.Dir(a.file("image")), "--pid", pid(program)}, "empty")
	if got := a.status(d, program); got.Checkpoint.Error == "" {
		t.Errorf("after a failed checkpoint: got no error in %+v", got)
	}
}
