package ipc

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness/scarce"
)

// file returns a temporary file with the given content.
func file(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "shared")
	if err == nil {
		_, err = f.WriteString(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFetch(t *testing.T) {
	dir := Dir(t.TempDir())
	token := Token{NewID(), NewID()}
	server, err := dir.Serve(token.Exporter, func(kind Kind, key ID) (Grant, error) {
		if key != token.Key {
			return Grant{}, abi.InvalidHandle
		}
		return Grant{
			Kind:      Memory,
			Ordinal:   3,
			Offset:    4096,
			FileBytes: 8192,
			Within:    512,
			Bytes:     100,
			File:      file(t, "the content"),
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	g, err := dir.Fetch(Memory, token)
	if err != nil {
		t.Fatal(err)
	}
	defer g.File.Close()
	content, err := io.ReadAll(io.NewSectionReader(g.File, 0, 100))
	if err != nil || string(content) != "the content" {
		t.Errorf("%q, %v", content, err)
	}
	g.File = nil
	if want := (Grant{Kind: Memory, Ordinal: 3, Offset: 4096, FileBytes: 8192, Within: 512, Bytes: 100}); g != want {
		t.Errorf("got %+v, want %+v", g, want)
	}
	if _, err := dir.Fetch(Memory, Token{token.Exporter, NewID()}); !errors.Is(err, abi.InvalidHandle) {
		t.Errorf("wrong key: got %v, want InvalidHandle", err)
	}
	if _, err := dir.Fetch(Event, token); !errors.Is(err, abi.InvalidHandle) {
		t.Errorf("wrong kind: got %v, want InvalidHandle", err)
	}
	if _, err := dir.Serve(token.Exporter, nil); !errors.Is(err, ErrTaken) {
		t.Errorf("second Serve: got %v, want ErrTaken", err)
	}
	if !dir.Alive(token.Exporter) || dir.Alive(NewID()) {
		t.Error("Alive is wrong")
	}
	for free := range 3 {
		enough := scarce.Files(t, free)
		if !dir.Alive(token.Exporter) {
			t.Errorf("Alive with %d free descriptors: got false, want true", free)
		}
		enough()
	}
	server.Close()
	if _, err := dir.Fetch(Memory, token); !errors.Is(err, ErrGone) {
		t.Errorf("after Close: got %v, want ErrGone", err)
	}
}

// TestAwait starts the exporter after the importer.
func TestAwait(t *testing.T) {
	dir := Dir(t.TempDir())
	token := Token{NewID(), NewID()}
	served := make(chan *Server, 1)
	time.AfterFunc(50*time.Millisecond, func() {
		server, _ := dir.Serve(token.Exporter, func(Kind, ID) (Grant, error) {
			return Grant{Kind: Memory, FileBytes: 1, Bytes: 1, File: file(t, "x")}, nil
		})
		served <- server
	})
	g, err := dir.Await(t.Context(), Memory, token)
	if err != nil {
		t.Fatal(err)
	}
	_ = g.File.Close()
	(<-served).Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := dir.Await(ctx, Memory, Token{NewID(), NewID()}); !errors.Is(err, ErrGone) {
		t.Errorf("no exporter: got %v, want ErrGone", err)
	}
}

func FuzzParseReply(f *testing.F) {
	good := Grant{Kind: Memory, Ordinal: 1, Offset: 2 << 20, FileBytes: 4 << 20, Within: 512, Bytes: 4096}
	f.Add(good.reply(abi.Success))
	f.Add(good.reply(abi.InvalidHandle))
	f.Add([]byte{})
	bad := good
	bad.Bytes = ^uint64(0)
	f.Add(bad.reply(abi.Success))
	f.Fuzz(func(t *testing.T, frame []byte) {
		g, err := parseReply(frame)
		if err != nil {
			return
		}
		if g.Within+g.Bytes > g.FileBytes || g.Within > g.FileBytes {
			t.Errorf("%+v exceeds its file", g)
		}
		if again := g.reply(abi.Success); !bytes.Equal(again, frame) {
			t.Errorf("encoded %x, want %x", frame, again)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add(request(Memory, ID{1, 2, 3}))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		kind, key, err := parseRequest(frame)
		if err == nil && !bytes.Equal(request(kind, key), frame) {
			t.Errorf("%x does not encode to itself", frame)
		}
	})
}

// TestOtherUser fetches as another user that knows the token.
func TestOtherUser(t *testing.T) {
	const stranger = 65534
	dir := Dir("") // which other users reach too
	if text := os.Getenv("SHARING_TOKEN"); text != "" {
		var token Token
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		copy(token.Exporter[:], raw)
		copy(token.Key[:], raw[16:])
		if g, err := dir.Fetch(Memory, token); !errors.Is(err, abi.NotPermitted) {
			t.Errorf("got %+v, %v, want NotPermitted", g, err)
		}
		if dir.Alive(token.Exporter) {
			t.Error("Alive for another user: got true, want false")
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	token := Token{NewID(), NewID()}
	server, err := dir.Serve(token.Exporter, func(Kind, ID) (Grant, error) {
		t.Error("the server was asked for a grant")
		return Grant{}, abi.InvalidHandle
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	other := exec.Command("/proc/self/exe", "-test.run=^TestOtherUser$")
	other.Env = append(os.Environ(), "SHARING_TOKEN="+hex.EncodeToString(append(token.Exporter[:], token.Key[:]...)))
	other.Dir = "/"
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	if output, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestSquatter: another user has taken the name that exporters had before they had a directory.
func TestSquatter(t *testing.T) {
	exporter := NewID()
	squatter, err := net.ListenUnix("unixpacket", Dir("").address(exporter))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	server, err := Dir(t.TempDir()).Serve(exporter, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
}

// TestKilledExporter: a worker that was killed has left its socket's file.
func TestKilledExporter(t *testing.T) {
	dir, exporter := Dir(t.TempDir()), NewID()
	killed, err := net.ListenUnix("unixpacket", dir.address(exporter))
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	killed.Close()
	if dir.Alive(exporter) {
		t.Error("a killed exporter is alive")
	}
	server, err := dir.Serve(exporter, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := dir.Serve(exporter, nil); !errors.Is(err, ErrTaken) {
		t.Errorf("a second exporter: %v, want ErrTaken", err)
	}
}
