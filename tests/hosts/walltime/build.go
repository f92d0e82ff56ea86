package walltime

import (
	_ "embed" // of the addition to package time
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/tests/harness"
)

// File is where the programs find by how much their clock is ahead: nanoseconds, as 8 bytes of this
// machine. It must be there when they start.
const File = "/run/phos-test-clock"

//go:embed offset.txt
var offset string

// The line of time.Now that reads the clocks, and what replaces it.
const (
	reads  = "\tsec, nsec, mono := runtimeNow()\n"
	shifts = reads + "\tsec, nsec = shiftWall(sec, nsec)\n"
)

// errOtherGo means that this version of Go reads the clock in another way.
var errOtherGo = errors.New("time.Now of this version of Go is not as walltime knows it: look at its source, and change this package")

// Build prepares a "go build" in the root of the repository whose programs have another package
// time. The files for it are in a directory, which may be that of another build.
func Build(directory string, arguments ...string) (*exec.Cmd, error) {
	command, err := goIn(directory)
	if err != nil {
		return nil, err
	}
	flag, err := overlay(directory, filepath.Dir(filepath.Dir(command)))
	if err != nil {
		return nil, err
	}
	build := harness.Command(command, append([]string{"build", flag}, arguments...)...)
	build.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOROOT=")
	return build, nil
}

// goIn returns a go command whose sources may be replaced. A Go that was fetched for go.mod is in
// the cache of modules, where no file may be replaced: its copy in the directory is not.
func goIn(directory string) (string, error) {
	said, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of Go: %w", err)
	}
	root, modules, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	if !strings.HasPrefix(root, modules+"/") {
		return filepath.Join(root, "bin", "go"), nil
	}
	own := filepath.Join(directory, "go")
	if _, err := os.Stat(own); err == nil {
		return filepath.Join(own, "bin", "go"), nil
	}
	for _, command := range [][]string{{"cp", "-a", root, own}, {"chmod", "-R", "u+w", own}} {
		if said, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("copy Go: %w: %s", err, said)
		}
	}
	return filepath.Join(own, "bin", "go"), nil
}

// overlay returns the flag for "go build" that replaces package time of a Go.
func overlay(directory, root string) (string, error) {
	source := filepath.Join(root, "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), reads) != 1 {
		return "", errOtherGo
	}
	own := func(name string) string { return filepath.Join(directory, name) }
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"): own("time.go"), filepath.Join(source, "offset.go"): own("offset.go"),
	}})
	if err != nil {
		return "", err
	}
	for name, content := range map[string]string{
		"time.go":   strings.Replace(string(text), reads, shifts, 1),
		"offset.go": strings.Replace(offset, "FILE", File, 1), "overlay.json": string(replaced),
	} {
		if err := os.WriteFile(own(name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	return "-overlay=" + own("overlay.json"), nil
}

// Programs builds all programs of phos into a directory, as ./build.sh does, with another version.
func Programs(directory, version string) error {
	common := []string{
		"-trimpath", "-o", directory + "/",
		"-ldflags", "-X github.com/phos-gpu/phos/daemon/api.Version=" + version,
	}
	for _, each := range []struct {
		cgo  string
		more []string
	}{
		{"0", []string{"./cli/pos_cli", "./cli/phos-controller", "./cli/phos-agent"}},
		{"1", []string{"-tags", "netgo,osusergo", "./cli/phosd"}},
	} {
		build, err := Build(directory, append(common, each.more...)...)
		if err != nil {
			return err
		}
		build.Env = append(build.Env, "CGO_ENABLED="+each.cgo)
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build phos %s: %w: %s", version, err, said)
		}
	}
	for _, name := range []string{"libphos.so", "lib"} {
		if said, err := exec.Command("cp", "-a", filepath.Join(harness.Bin(), name), directory).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", name, err, said)
		}
	}
	return nil
}
