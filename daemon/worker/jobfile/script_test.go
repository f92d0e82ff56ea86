package jobfile

import (
	"strings"
	"testing"
)

// TestScriptName has command lines as Python's own documentation describes them ("Command line and
// environment").
func TestScriptName(t *testing.T) {
	for line, want := range map[string]string{
		"python3 train.py --epochs 3":                                 "train",
		"/usr/bin/python3.11 /home/u/run/train.py":                    "train",
		"python -u ./train.py":                                        "train",
		"python3 -m torch.distributed.run --nproc-per-node 2 a.py":    "torch.distributed.run",
		"python3 -um pkg.tool":                                        "pkg.tool",
		"python3 -mpkg.tool":                                          "pkg.tool",
		"python3 -W ignore -X dev -B train.py":                        "train",
		"python3 -Wignore -Xfaulthandler train.py":                    "train",
		"python3 --check-hash-based-pycs never train.py":              "train",
		"python3 /usr/local/bin/torchrun --nproc-per-node 2 train.py": "torchrun",
		"python3 package/":                                            "package",
		"python3 package/__main__.py":                                 "package",
		"pypy3 bench.py":                                              "bench",
		"python3 notes.txt":                                           "notes.txt",
		"python3 -c code train.py":                                    "",
		"python3 -":                                                   "",
		"python3":                                                     "",
		"python3 -m":                                                  "",
		"python3-config train.py":                                     "",
		"./stencil train.py":                                          "",
		"python3 evil\x1b[2J.py":                                      "",
		"python3 " + strings.Repeat("x", maxJobName+1) + ".py":        "",
		"python3 __main__.py":                                         "",
	} {
		if got := ScriptName(strings.Fields(line)); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	if got := ScriptName(nil); got != "" {
		t.Errorf("no command line: got %q", got)
	}
}
