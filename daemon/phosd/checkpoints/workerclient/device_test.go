package workerclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
)

var errWorker = errors.New("the worker's own words")

// finished is the answer to all commands of a checkpoint that goes well.
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
		ckpt.DeviceOptions{Progress: func(now ckpt.Step) { phases = append(phases, now.Phase) }},
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
		t.Errorf("half %+v, want %+v", half, want)
	}
	if want := []string{"begin", "quiesce", "cut", "resume", "finish", "end"}; !slices.Equal(w.heard, want) {
		t.Errorf("the worker heard %q", w.heard)
	}
	if want := []string{"begin", "quiesce", "cut", "resume"}; !slices.Equal(phases, want) {
		t.Errorf("progress of %q", phases)
	}
	if !slices.Equal(w.files, []string{"new", "old"}) {
		t.Errorf("handed over %q", w.files)
	}
	d.Abort() // it may come at any time
	if err := d.Quiesce(t.Context(), time.Second); !errors.Is(err, errNotBegun) {
		t.Errorf("after the end: %v", err)
	}
}

// Each command in turn is busy, fails, or ends the stream.
func TestAnswers(t *testing.T) {
	for _, command := range []string{"begin", "quiesce", "cut", "resume", "finish"} {
		for _, test := range []struct {
			name   string
			answer func(send func(*api.SaveEvent)) error
			want   error
			says   string
		}{
			{"busy", func(send func(*api.SaveEvent)) error { send(busy("a call is under way")); return nil }, ckpt.ErrBusy, "a call is under way"},
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
				_, err := all(t.Context(), d, packs(t, "new"), ckpt.DeviceOptions{})
				if err == nil || test.want != nil && !errors.Is(err, test.want) ||
					!strings.Contains(err.Error(), test.says) {
					t.Errorf("it says %v", err)
				}
				d.Abort()
				d.Abort()
			})
		}
	}
}

// A worker that is at another checkpoint may be asked again later.
func TestBeginWhileBusy(t *testing.T) {
	w := &scripted{answer: func(string, func(*api.SaveEvent)) error { return api.ErrExhausted }}
	d, _ := w.serve(t)
	if err := d.Begin(t.Context(), packs(t, "new"), ckpt.DeviceOptions{}); !errors.Is(err, ckpt.ErrBusy) {
		t.Errorf("it says %v", err)
	}
}

// When the program has ended too, that is the reason; a worker that cannot be reached is no phosd
// that cannot be.
func TestLost(t *testing.T) {
	w := &scripted{answer: finished}
	_, session := w.serve(t)
	session.Control += "-gone"
	if err := New(session).Begin(t.Context(), packs(t, "new"), ckpt.DeviceOptions{}); err == nil ||
		errors.Is(err, api.ErrNoDaemon) ||
		errors.Is(err, ckpt.ErrEnded) {
		t.Errorf("the worker is gone: %v", err)
	}
	session.Program.StartTicks++
	if err := New(session).Begin(t.Context(), packs(t, "new"), ckpt.DeviceOptions{}); !errors.Is(err, ckpt.ErrEnded) {
		t.Errorf("both are gone: %v", err)
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
		if _, err := all(t.Context(), d, packs(t, "new"), ckpt.DeviceOptions{}); !errors.Is(err, image.ErrMalformed) {
			t.Errorf("%d bytes: %v", len(tree), err)
		}
	}
}

// A command whose caller gives up is still answered; the next one waits for that, so that answers
// never get mixed up.
func TestGivenUp(t *testing.T) {
	answers := make(chan struct{})
	w := &scripted{answer: func(name string, send func(*api.SaveEvent)) error {
		if name == "cut" {
			<-answers
		}
		return finished(name, send)
	}}
	d, _ := w.serve(t)
	if err := errors.Join(d.Begin(t.Context(), packs(t, "new"), ckpt.DeviceOptions{}), d.Quiesce(t.Context(), time.Minute)); err != nil {
		t.Fatal(err)
	}
	errWhy := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	if err := d.Cut(ctx, time.Minute); !errors.Is(err, errWhy) {
		t.Errorf("cut: %v", err)
	}
	resumed := make(chan error, 1)
	go func() { resumed <- d.Resume(t.Context()) }()
	close(answers)
	if err := <-resumed; err != nil {
		t.Errorf("resume: %v", err)
	}
	if want := []string{"begin", "quiesce", "cut", "resume"}; !slices.Equal(w.heard, want) {
		t.Errorf("the worker heard %q", w.heard)
	}
}

// A worker whose process stands still is given up, and so is one that lives and gets no further.
func TestSilence(t *testing.T) {
	t.Run("no sign of life", func(t *testing.T) {
		talk := newTalk(t, time.Millisecond)
		if _, err := talk.do(t.Context(), &api.SaveCommand{}, time.Hour); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "sign of life") {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("no progress", func(t *testing.T) {
		talk := newTalk(t, time.Hour)
		if _, err := talk.do(t.Context(), &api.SaveCommand{}, time.Millisecond); !errors.Is(
			err,
			context.DeadlineExceeded,
		) ||
			!strings.Contains(err.Error(), "no further") {
			t.Errorf("it says %v", err)
		}
	})
}

// newTalk is with a worker that never answers.
func newTalk(t *testing.T, quiet time.Duration) *talk {
	t.Helper()
	w := &scripted{answer: func(string, func(*api.SaveEvent)) error { return nil }}
	_, session := w.serve(t)
	talk, err := begin(t.Context(), session.Worker, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(talk.cancel)
	talk.quiet = quiet
	return talk
}

func TestReturn(t *testing.T) {
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
			r := Watch(t.Context(), session.Worker)
			defer r.Close()
			check := func(what, want string, err error) {
				if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", what, err, want)
				}
			}
			bytes, err := r.Loaded(t.Context())
			check("loaded", test.loaded, err)
			if err == nil && bytes != 9 {
				t.Errorf("loaded %d bytes", bytes)
			}
			if test.name != "fails later" { // what failed since then is no longer ready
				check("ready", test.ready, r.Ready(t.Context(), nil))
			}
		})
	}
}

func TestReturnGivenUp(t *testing.T) {
	w := &scripted{restored: func(s grpc.ServerStreamingServer[api.RestoredEvent]) error {
		<-s.Context().Done()
		return s.Context().Err()
	}}
	_, session := w.serve(t)
	r := Watch(t.Context(), session.Worker)
	errWhy := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	if err := r.Ready(ctx, nil); !errors.Is(err, errWhy) {
		t.Errorf("ready: %v", err)
	}
	r.Close()
	if err := r.Ready(t.Context(), nil); err == nil {
		t.Error("ready after the end")
	}
}

func TestAttach(t *testing.T) {
	w := &scripted{}
	_, session := w.serve(t)
	if err := Attach(t.Context(), session.Worker, session.Control, identity(t)); err != nil {
		t.Error(err)
	}
	if err := Attach(t.Context(), session.Worker, session.Control+"-gone", identity(t)); err == nil {
		t.Error("a worker that is not there has taken its program")
	}
	if !slices.Equal(w.heard, []string{"attach"}) {
		t.Errorf("the worker heard %q", w.heard)
	}
}
