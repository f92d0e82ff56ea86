package ckpt_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

func TestParseFailpoints(t *testing.T) {
	for _, text := range []string{"", "cut=kill", " cut=kill , commit=error,", "freeze=until:/tmp/go"} {
		if _, err := ckpt.ParseFailpoints(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"cut": "the actions are", "cut=": "the actions are", "cut=stop": "the actions are",
		"cut=kill:1s": "the actions are",
		"cut=until":   "the actions are", "cut=until:": "the actions are", "cat=kill": "no step has this name",
	} {
		if _, err := ckpt.ParseFailpoints(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}

func TestHit(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	points, err := ckpt.ParseFailpoints("cut=error,freeze=until:" + there + ",write=until:" + there + "-never")
	if err == nil {
		err = os.WriteFile(there, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	for step, want := range map[string]error{"begin": nil, "cut": ckpt.ErrFailpoint, "freeze": nil} {
		if err := points.Hit(ctx, step); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", step, err, want)
		}
	}
	errWhy := errors.New("why")
	cancel(errWhy)
	if err := points.Hit(ctx, "write"); !errors.Is(err, errWhy) {
		t.Errorf("cancelled wait: %v", err)
	}
}

// A kill runs no deferred functions, like kill -9.
func TestHitKills(t *testing.T) {
	const variable = "CKPT_TEST_DIES"
	if os.Getenv(variable) != "" {
		points, _ := ckpt.ParseFailpoints("cut=kill")
		defer os.Exit(0)
		_ = points.Hit(t.Context(), "cut")
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^TestHitKills$")
	command.Env = append(os.Environ(), variable+"=1")
	var exit *exec.ExitError
	if err := command.Run(); !errors.As(err, &exit) {
		t.Fatalf("exit: %v", err)
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("got signal %v, want SIGKILL", status.Signal())
	}
}
