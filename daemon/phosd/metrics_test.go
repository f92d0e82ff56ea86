package phosd_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

func TestMetrics(t *testing.T) {
	var socket string
	l := newLab(t, func(c *config.Config) {
		socket = filepath.Join(c.RuntimeDir, "metrics.sock")
		c.Metrics.Listen = "unix:" + socket
	})
	l.run(nil).says("live")
	l.run(asUser(65534)).says("live")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("metrics are open to users: %v, %v", info, err)
	}
	if got := l.httpGet("/healthz"); got != "ok\n" {
		t.Errorf("healthz: got %q, want ok", got)
	}
	text := l.scrape()
	for _, want := range []string{
		`phos_build_info{goversion="` + runtime.Version() + `",version="` + api.Version + `"} 1` + "\n",
		`phos_checkpoints_total{by="policy",result="failed"} 0` + "\n",
		`phos_checkpoints_total{by="request",result="done"} 0` + "\n",
		`phos_restores_total{result="failed"} 0` + "\n",
		"phos_restore_seconds_count 0\n",
		"phos_warnings 0\n",
		"phos_programs 2\n", "phos_sessions_started_total 2\n", `phos_gpu_memory_bytes{gpu="0",name="idle GPU"} 1.073741824e+09`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
}
