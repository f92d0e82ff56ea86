package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/checkpoint-restore/go-criu/v7/rpc"

	"github.com/phos-gpu/phos/criu/engine"
)

// ErrNoProgram means that there is no CRIU.
var ErrNoProgram = errors.New("no CRIU is installed: install criu 4.1 or newer, or name one by criu in phosd.toml")

// Find looks for CRIU. A configured path is taken as it is; a name means the program that was installed with phosd, else
// the one that PATH names. It is empty where there is none.
func Find(configured string) string {
	if strings.Contains(configured, "/") {
		return configured
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "..", "lib", "phos", "criu", "criu")
		if info, err := os.Stat(beside); err == nil && info.Mode()&0o111 != 0 {
			return beside
		}
	}
	found, err := exec.LookPath(configured)
	if err != nil {
		return ""
	}
	return found
}

// ask puts a question to CRIU that is about no process.
func ask(ctx context.Context, program string, question rpc.CriuReqType) (*rpc.CriuResp, error) {
	// CRIU 4.1 wants a directory for images here too. In this one it can leave nothing.
	nowhere, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer nowhere.Close()
	return engine.Run(ctx, engine.Request{Program: program, Type: question, Images: nowhere, Options: &rpc.CriuOpts{}})
}

// version is what a CRIU calls itself; it is asked once, until another one takes its place.
type version struct {
	mu   sync.Mutex
	file os.FileInfo
	text string
}

// of is empty for a program that does not answer: whoever needs it for more than its name learns why.
func (v *version) of(ctx context.Context, program string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	file, err := os.Stat(program)
	if err != nil {
		return ""
	}
	if v.file != nil && os.SameFile(v.file, file) && v.file.ModTime().Equal(file.ModTime()) {
		return v.text
	}
	answer, err := ask(ctx, program, rpc.CriuReqType_VERSION)
	if err != nil {
		return ""
	}
	said := answer.GetVersion()
	v.file, v.text = file, fmt.Sprintf("%d.%d", said.GetMajorNumber(), said.GetMinorNumber())
	if said.GetSublevel() > 0 {
		v.text += fmt.Sprintf(".%d", said.GetSublevel())
	}
	return v.text
}
