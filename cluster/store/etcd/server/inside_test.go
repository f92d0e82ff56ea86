package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// WithHash is a file of some content as a snapshot.
func WithHash(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append(content, sum[:]...)
}

// TestFatalErrors: what ends etcd ends only the goroutine, and is kept with its reason.
func TestFatalErrors(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*zap.Logger)
		want error
		text string
	}{
		"fatal": {
			end:  func(l *zap.Logger) { l.Fatal("cannot go on", zap.String("path", "p"), zap.Error(os.ErrPermission)) },
			want: os.ErrPermission, text: "etcd: cannot go on: permission denied",
		},
		"panic":     {end: func(l *zap.Logger) { l.Panic("torn") }, text: "etcd: torn"},
		"disk full": {end: func(l *zap.Logger) { l.Named("wal").Fatal("save", zap.Error(unix.ENOSPC)) }, want: ErrDiskFull},
		"over quota": {
			end: func(l *zap.Logger) {
				l.With(zap.Int("n", 1)).Panic("save", zap.Error(fmt.Errorf("w: %w", unix.EDQUOT)))
			},
			want: ErrDiskFull,
		},
	} {
		f := newFault()
		logger := newLogger(slog.New(slog.DiscardHandler), f)
		err := f.run(func() error {
			test.end(logger)
			t.Errorf("%s: the goroutine goes on", name)
			return nil
		})
		if err == nil || !errors.Is(err, f.err) || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", name, err)
		}
		if again := f.run(func() error { select {} }); !errors.Is(again, err) {
			t.Errorf("%s: a later call ends with %v", name, again)
		}
	}
}

func TestRunReturnsErrors(t *testing.T) {
	f := newFault()
	if err := f.run(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := f.run(func() error { return fmt.Errorf("x: %w", unix.ENOSPC) }); !errors.Is(err, ErrDiskFull) || !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
}

func TestLog(t *testing.T) {
	var text bytes.Buffer
	logger := newLogger(slog.New(slog.NewJSONHandler(&text, nil)), newFault())
	logger.Info("not passed on")
	logger.Warn(always[0])
	logger.With(zap.Int("b", 2)).Named("x").Error("slow disk", zap.String("a", strings.Repeat("v", 10_000)), zap.Error(os.ErrClosed))
	var line map[string]any
	if err := json.Unmarshal(text.Bytes(), &line); err != nil {
		t.Fatalf("%v: %.500s", err, text.String())
	}
	if line["msg"] != "etcd: slow disk" || line["level"] != "ERROR" || line["b"] != 2.0 || line["error"] != os.ErrClosed.Error() {
		t.Errorf("%.300v", line)
	}
	if a := line["a"].(string); len(a) > 600 || !strings.HasPrefix(a, "vvv") {
		t.Errorf("a value of %d bytes", len(a))
	}
}

func FuzzMarker(f *testing.F) {
	for _, seed := range []string{`{"cluster":"a","member":"b"}`, `{`, `{"cluster":1}`, "\x00", `[]`, `{} {}`, ` {"x":{"y":[]}} `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := readMarker(text)
		if err != nil {
			if !errors.Is(err, ErrForeign) || found != (marker{}) {
				t.Errorf("%q: %v, %v", text, found, err)
			}
			return
		}
		again, err := json.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := readMarker(again); err != nil || same != found {
			t.Errorf("%q is read as %v, and written as %q", text, found, again)
		}
	})
}

func FuzzCheckSnapshot(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, sha256.Size))
	f.Add(WithHash([]byte("content")))
	f.Add(append(WithHash([]byte("content")), 0))
	path := filepath.Join(f.TempDir(), "snapshot")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkSnapshot(path)
		intact := len(content) > sha256.Size && bytes.Equal(content, WithHash(bytes.Clone(content[:len(content)-sha256.Size])))
		if intact != (err == nil) || err != nil && !errors.Is(err, ErrSnapshot) {
			t.Errorf("%d bytes, intact %v: %v", len(content), intact, err)
		}
	})
}
