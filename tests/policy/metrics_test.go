package policy

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// numbers returns the metrics that Prometheus would read, by name and labels.
func numbers(t *testing.T, socket string) map[string]float64 {
	t.Helper()
	client := &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
	}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://phosd/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.Contains(name, "{") {
			name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = number
		}
	}
	return found
}

// TestMetrics: the results of checkpoints in the metrics are the same as in --status.
func TestMetrics(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics")
	daemon := start(t, "--metrics-listen=unix:"+socket)
	job := countingJob(t, daemon, "1500", "2000", "20000")
	writePolicy(t, job, "job_name: counts\ncheckpoint: {dir: ../policy, every: 1h}\n")
	job.Start().WaitLines(5)
	labels := `{job="counts",pid="` + itoa(job.PID) + `"`
	daemon.Eventually("the policy is known", func() bool { return programOf(daemon, job).GetPolicy() != nil })
	before := numbers(t, socket)
	if _, saved := before["phos_program_checkpoint_timestamp_seconds"+labels]; saved ||
		before["phos_program_checkpoint_due_timestamp_seconds"+labels] == 0 {
		t.Errorf("before a checkpoint: %v", before)
	}
	job.PreDump()
	if err := os.WriteFile(filepath.Join(filepath.Dir(job.Image), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := job.TryCli("--pre-dump", "--pid", itoa(job.PID), "--dir", filepath.Dir(job.Image)); err == nil {
		t.Errorf("checkpoint into a directory that is not empty: %s", said)
	}
	after, program := numbers(t, socket), programOf(daemon, job)
	for name, want := range map[string]float64{
		"phos_program_checkpoint_timestamp_seconds" + labels:  float64(program.GetLastCheckpointUnixMilliseconds()) / 1000,
		"phos_program_checkpoint_failed" + labels:             1,
		`phos_checkpoints_total{by="request",result="done"`:   1,
		`phos_checkpoints_total{by="request",result="failed"`: 1,
		"phos_checkpoint_pause_seconds_count":                 1,

		`phos_checkpoint_pause_part_seconds_count{part="processes"`: 1,
	} {
		if got, there := after[name]; !there || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if after["phos_checkpoint_written_bytes_total"] < 1<<20 {
		t.Errorf("got %v written bytes", after["phos_checkpoint_written_bytes_total"])
	}
	job.Kill()
	daemon.Empty()
}
