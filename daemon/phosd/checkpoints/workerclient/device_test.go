package workerclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
)

var errWorker = errors.New("error of the worker")

// explain explains errors as phosd does as long as the worker runs.
func explain(err error) error {
	if errors.Is(err, api.ErrNoDaemon) {
		return errors.New("worker: " + err.Error())
	}
	return fmt.Errorf("worker: %w", err)
}

// finished answers all commands of a successful checkpoint.
func finished(name string, send func(*api.SaveEvent)) error {
	if name == "finish" {
		send(
			done(
				&api.SaveResult{
					Tree:         make([]byte, len(image.Hash{})),
					MemoryBytes:  5,
					ArenaBytes:   6,
					WrittenBytes: 7,
					SharedBytes:  8,
				},
			),
		)
		return nil
	}
	send(
		&api.SaveEvent{
			Event: &api.SaveEvent_Progress{Progress: &api.SaveProgress{Phase: name, DoneBytes: 1, TotalBytes: 2}},
		},
	)
	send(done(nil))
	return nil
}

func TestCheckpoint(t *testing.T) {
	w := &scripted{answer: finished}
	d, _ := w.serve(t)
	var phases []string
	half, err := all(
		t.Context(),
		d,
		packs(t, "new", "old"),
		ckpt.GPUOptions{Progress: func(now ckpt.Step) { phases = append(phases, now.Phase) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := image.GPUHalf{
		Session: 3, Job: "train", Tree: strings.Repeat("00", len(image.Hash{})),
		MemoryBytes: 5, PinnedBytes: 6, WrittenBytes: 7, SharedBytes: 8,
	}
	if half.Tree != want.Tree || half.Session != 3 || half.Job != "train" || half.MemoryBytes != 5 ||
		half.PinnedBytes != 6 ||
		half.WrittenBytes != 7 ||
		half.SharedBytes != 8 {
		t.Errorf("got half %+v, want %+v", half, want)
	}
	if want := []string{"begin", "quiesce", "cut", "resume", "finish", "end"}; !slices.Equal(w.heard, want) {
		t.Errorf("commands: got %q", w.heard)
	}
	if want := []string{"begin", "quiesce", "cut", "resume"}; !slices.Equal(phases, want) {
		t.Errorf("progress of %q", phases)
	}
	if !slices.Equal(w.files, []string{"new", "old"}) {
		t.Errorf("handed over %q", w.files)
	}
	d.Abort() // it may come at any time
	if err := d.Quiesce(t.Context(), ckpt.Drain{Deadline: time.Second}); !errors.Is(err, errNotBegun) {
		t.Errorf("after the end: %v", err)
	}
}

// TestAnswers checks that each command returns the worker's errors.
func TestAnswers(t *testing.T) {
	for _, command := range []string{"begin", "quiesce", "cut", "resume", "finish"} {
		for _, test := range []struct {
			name   string
			answer func(send func(*api.SaveEvent)) error
			want   error
			says   string
		}{
			{"busy", func(send func(*api.SaveEvent)) error {
				send(busy("a call is in flight"))
				return nil
			}, ckpt.ErrBusy, "a call is in flight"},
			{"fails", func(func(*api.SaveEvent)) error { return errWorker }, nil, errWorker.Error()},
			{"not permitted", func(func(*api.SaveEvent)) error { return api.ErrNotPermitted }, api.ErrNotPermitted, "worker"},
		} {
			t.Run(command+"/"+test.name, func(t *testing.T) {
				w := &scripted{answer: func(name string, send func(*api.SaveEvent)) error {
					if name == command {
						return test.answer(send)
					}
					return finished(name, send)
				}}
				d, _ := w.serve(t)
				_, err := all(t.Context(), d, packs(t, "new"), ckpt.GPUOptions{})
				if err == nil || test.want != nil && !errors.Is(err, test.want) ||
					!strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, want an error with %q", err, test.says)
				}
				d.Abort()
				d.Abort()
			})
		}
	}
}

// TestBeginWhileBusy checks that a worker with another checkpoint in flight is busy.
func TestBeginWhileBusy(t *testing.T) {
	w := &scripted{answer: func(string, func(*api.SaveEvent)) error { return api.ErrExhausted }}
	d, _ := w.serve(t)
	if err := d.Begin(t.Context(), packs(t, "new"), ckpt.GPUOptions{}); !errors.Is(err, ckpt.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

// TestUnreachable checks the error for a worker that cannot be reached, whose program has ended or
// not.
func TestUnreachable(t *testing.T) {
	w := &scripted{answer: finished}
	_, session := w.serve(t)
	session.Control += "-gone"
	if err := New(session).Begin(t.Context(), packs(t, "new"), ckpt.GPUOptions{}); err == nil ||
		errors.Is(err, api.ErrNoDaemon) ||
		errors.Is(err, ckpt.ErrProgramEnded) {
		t.Errorf("program running: got %v, want neither ErrNoDaemon nor ErrEnded", err)
	}
	session.Program.StartTicks++
	if err := New(session).Begin(t.Context(), packs(t, "new"), ckpt.GPUOptions{}); !errors.Is(err, ckpt.ErrProgramEnded) {
		t.Errorf("program ended: got %v, want ErrEnded", err)
	}
}

func TestNoTree(t *testing.T) {
	for _, tree := range [][]byte{nil, make([]byte, 3), make([]byte, 64)} {
		w := &scripted{answer: func(name string, send func(*api.SaveEvent)) error {
			if name == "finish" {
				send(done(&api.SaveResult{Tree: tree}))
				return nil
			}
			return finished(name, send)
		}}
		d, _ := w.serve(t)
		if _, err := all(t.Context(), d, packs(t, "new"), ckpt.GPUOptions{}); !errors.Is(err, image.ErrMalformed) {
			t.Errorf("tree of %d bytes: got %v, want ErrMalformed", len(tree), err)
		}
	}
}

// TestCanceledCommand checks that the next command waits for the answer of a cancelled one, so that
// answers are not mixed up.
func TestCanceledCommand(t *testing.T) {
	answers := make(chan struct{})
	w := &scripted{answer: func(name string, send func(*api.SaveEvent)) error {
		if name == "cut" {
			<-answers
		}
		return finished(name, send)
	}}
	d, _ := w.serve(t)
	if err := errors.Join(d.Begin(t.Context(), packs(t, "new"), ckpt.GPUOptions{}),
		d.Quiesce(t.Context(), ckpt.Drain{Deadline: time.Minute})); err != nil {
		t.Fatal(err)
	}
	errWhy := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	if err := d.Cut(ctx, time.Minute); !errors.Is(err, errWhy) {
		t.Errorf("cut: got %v, want the cause", err)
	}
	resumed := make(chan error, 1)
	go func() { resumed <- d.Resume(t.Context()) }()
	close(answers)
	if err := <-resumed; err != nil {
		t.Errorf("resume: got %v", err)
	}
	if want := []string{"begin", "quiesce", "cut", "resume"}; !slices.Equal(w.heard, want) {
		t.Errorf("commands: got %q", w.heard)
	}
}

// TestTimeouts checks a worker that sends nothing, and one that makes no progress.
func TestTimeouts(t *testing.T) {
	t.Run("silence", func(t *testing.T) {
		stream := newStream(t, time.Millisecond)
		if _, err := stream.do(t.Context(), &api.SaveCommand{}, time.Hour); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "sent nothing") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no progress", func(t *testing.T) {
		stream := newStream(t, time.Hour)
		if _, err := stream.do(t.Context(), &api.SaveCommand{}, time.Millisecond); !errors.Is(
			err,
			context.DeadlineExceeded,
		) ||
			!strings.Contains(err.Error(), "no progress for") {
			t.Errorf("got %v", err)
		}
	})
}

// newStream is a stream to a worker that never answers.
func newStream(t *testing.T, silence time.Duration) *commandStream {
	t.Helper()
	w := &scripted{answer: func(string, func(*api.SaveEvent)) error { return nil }}
	_, session := w.serve(t)
	stream, err := openStream(t.Context(), session.Worker, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.cancel)
	stream.silence = silence
	return stream
}

func TestRestore(t *testing.T) {
	type stream = grpc.ServerStreamingServer[api.RestoredEvent]
	tell := func(s stream, events ...*api.RestoredEvent) error {
		for _, event := range events {
			if err := s.Send(event); err != nil {
				return err
			}
		}
		return nil
	}
	ready, loaded := &api.RestoredEvent{
		Ready:     true,
		DoneBytes: 1,
	}, &api.RestoredEvent{
		Ready:     true,
		Done:      true,
		DoneBytes: 9,
	}
	for _, test := range []struct {
		name          string
		restored      func(stream) error
		ready, loaded string
	}{
		{"well", func(s stream) error { return tell(s, &api.RestoredEvent{}, ready, loaded) }, "", ""},
		{"at once", func(s stream) error { return tell(s, loaded) }, "", ""},
		{"fails", func(stream) error { return errWorker }, errWorker.Error(), errWorker.Error()},
		{"fails later", func(s stream) error { return errors.Join(tell(s, ready), errWorker) }, "", errWorker.Error()},
		{"ends", func(s stream) error { return tell(s, &api.RestoredEvent{}) }, "it has ended", "it has ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &scripted{restored: test.restored}
			_, session := w.serve(t)
			r := Watch(t.Context(), session.Worker, explain)
			defer r.Close()
			check := func(what, want string, err error) {
				if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want %q", what, err, want)
				}
			}
			bytes, err := r.Loaded(t.Context())
			check("loaded", test.loaded, err)
			if err == nil && bytes != 9 {
				t.Errorf("loaded: got %d bytes, want 9", bytes)
			}
			if test.name != "fails later" { // by now it has failed
				check("ready", test.ready, r.Ready(t.Context(), nil))
			}
		})
	}
}

func TestRestoreCanceled(t *testing.T) {
	w := &scripted{restored: func(s grpc.ServerStreamingServer[api.RestoredEvent]) error {
		<-s.Context().Done()
		return s.Context().Err()
	}}
	_, session := w.serve(t)
	r := Watch(t.Context(), session.Worker, explain)
	errWhy := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	if err := r.Ready(ctx, nil); !errors.Is(err, errWhy) {
		t.Errorf("Ready: got %v, want the cause", err)
	}
	r.Close()
	if err := r.Ready(t.Context(), nil); err == nil {
		t.Error("Ready after Close: got no error")
	}
}

func TestAttach(t *testing.T) {
	w := &scripted{}
	_, session := w.serve(t)
	r := &Restore{explain: explain}
	if err := r.Attach(t.Context(), session.Worker, session.Control, identity(t), nil); err != nil {
		t.Error(err)
	}
	if err := r.Attach(t.Context(), session.Worker, session.Control+"-gone", identity(t), nil); err == nil {
		t.Error("Attach without a worker: got no error")
	}
	if !slices.Equal(w.heard, []string{"attach"}) {
		t.Errorf("commands: got %q", w.heard)
	}
}
