package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

func TestImageCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image")
	if err := os.CopyFS(dir, os.DirFS("../../ckpt/store/testdata/golden/v1/image")); err != nil {
		t.Fatal(err)
	}
	harmless := &api.Obstacle{Subject: "kernel", Reason: "tracks no dirty pages", Harmless: true}
	taken := &api.Obstacle{Subject: "pid 7", Reason: "it is taken: \x1b[31mvi", Remedy: "end that process"}
	for _, test := range []struct {
		name, line     string
		obstacles      []*api.Obstacle
		generation     uint64
		status         int
		stdout, stderr string
	}{
		{
			"good", "image check " + dir, nil, 2, exitDone,
			dir + ", generation 2: it can be restored here; its contents were not read (pos_cli image verify reads them)\n", "",
		},
		{
			"harmless", "image check " + dir + " --generation 1",
			[]*api.Obstacle{harmless},
			1, exitDone,
			"kernel: tracks no dirty pages (a restore is possible)\n" + dir +
				", generation 1: it can be restored here; its contents were not read (pos_cli image verify reads them)\n", "",
		},
		{
			"bad", "image check " + dir,
			[]*api.Obstacle{harmless, taken},
			2, exitFailed,
			"kernel: tracks no dirty pages (a restore is possible)\npid 7: it is taken: ?[31mvi; end that process\n",
			"pos_cli image check: " + dir + ", generation 2: it cannot be restored here\n",
		},
		{
			"as JSON", "image check --json " + dir,
			[]*api.Obstacle{taken},
			2, exitFailed, `"restorable": false`,
			"it cannot be restored here",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &fakePhosd{
				check: func(request *api.CheckImageRequest, _ []*os.File) (*api.CheckImageReply, error) {
					if request.GetGeneration() != test.generation {
						t.Errorf("generation %d, want %d", request.GetGeneration(), test.generation)
					}
					return &api.CheckImageReply{Obstacles: test.obstacles}, nil
				},
			}
			server.serve(t)
			var stdout, stderr bytes.Buffer
			if status := run("pos_cli", strings.Fields(test.line), &stdout, &stderr); status != test.status {
				t.Errorf("status %d, want %d (%s)", status, test.status, stderr.String())
			}
			if out, err := stdout.String(), stderr.String(); !strings.Contains(out, test.stdout) ||
				!strings.Contains(err, test.stderr) ||
				(err == "") != (test.stderr == "") {
				t.Errorf("got %q and %q, want %q and %q", out, err, test.stdout, test.stderr)
			}
		})
	}
}
