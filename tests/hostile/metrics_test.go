package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// metric matches a line of the format of Prometheus.
var metric = regexp.MustCompile(`^(# (HELP|TYPE) \w+ .*|\w+(\{(\w+="([^"\\\n]|\\[\\n"])*",?)*\})? [-+.\w]+)\n$`)

// scraped returns what phosd tells Prometheus.
func scraped(t *testing.T, socket string) (status int, text string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	reply, err := client.Get("http://phosd/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

// TestMetrics: bob's programs have names that are no text, or forge metrics, and one of them is two
// programs at once. Prometheus still reads the metrics, and bob cannot.
func TestMetrics(t *testing.T) {
	a, b := alice(t), bob(t)
	socket := filepath.Join(t.TempDir(), "metrics")
	if err := openWay(filepath.Dir(socket)); err != nil {
		t.Fatal(err)
	}
	d := start(t, "--metrics-listen=unix:"+socket)
	a.programIn(d, "alices", "", onGPU+"ready()")
	for i, name := range []string{
		"\xff\xfe\xc3(", "x\"} 1\nphos_programs 4711\n#", strings.Repeat("long", 60), "\x1b[2J\u009b\u202e",
	} {
		path := b.file(name)
		if err := os.Symlink("/usr/bin/python3", path); err != nil {
			t.Fatal(err)
		}
		ready := b.file("ready" + string(rune('0'+i)))
		program := b.python(d, onGPU+`
open("/proc/self/comm", "wb").write(os.fsencode(os.path.basename(sys.argv[1])))
open(sys.argv[2], "w").close()
while True: signal.pause()
`, path, ready)
		program.Path, program.Args[0] = path, path
		program.Env = append(program.Env, fmt.Sprintf("PHOS_JOB={job_name: %q}", name))
		background(t, program)
		waitFor(t, "bob's program runs, or is refused", func() bool { return exists(ready) || program.Process.Signal(syscall.Signal(0)) != nil })
	}
	b.programIn(d, "named", "job_name: \"a\\\"} 1\\u2028\\\\n\"\n", onGPU+"ready()")
	b.programIn(d, "long", "job_name: "+strings.Repeat("long", 5000)+"\n", onGPU+"ready()")
	b.programIn(d, "twice", "", onGPU+`
import shutil
library = next(line.split()[-1] for line in open("/proc/self/maps") if "/libphos.so" in line or "/libcuda.so" in line)
shutil.copy(library, "second.so")
second = ctypes.CDLL("./second.so")
second.cuInit(0)
second.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0)
ready()
`)
	status, text := scraped(t, socket)
	if status != http.StatusOK {
		t.Fatalf("status %d: %.2000s", status, text)
	}
	var programs []string
	for line := range strings.Lines(text) {
		if !metric.MatchString(line) || len(line) > 1024 {
			t.Errorf("%.1100q is no metric, or too long", line)
		}
		if strings.HasPrefix(line, "phos_programs ") {
			programs = append(programs, line)
		}
	}
	if want := fmt.Sprintf("phos_programs %d\n", len(d.Status().GetPrograms())); !slices.Equal(programs, []string{want}) {
		t.Errorf("got %q, want %q", programs, want)
	}
	const connect = `import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])`
	if text, err := run(t, b.python(d, connect, socket)); err == nil || !strings.Contains(text, "PermissionError") {
		t.Errorf("bob connects to the metrics: %v: %s", err, text)
	}
	a.mustCLI(d, "--status")
}
