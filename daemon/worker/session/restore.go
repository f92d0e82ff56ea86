package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Restore returns the session that Save has encoded. The content of device memory comes from
// options.Backing; that of the arena must be there already. The program cannot observe the restore:
// completion words and replies are not touched.
func Restore(options core.Options, data []byte) (*Session, error) {
	in, err := saved.Decode(data)
	if err != nil {
		return nil, err
	}
	s, err := newSession(options)
	if err != nil {
		return nil, err
	}
	r := &core.Decoder{In: in}
	err = s.restoreAll(r)
	if err == nil {
		err = s.reopen(r)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("restore session: %w", err), s.Close())
	}
	return s, nil
}

// restoreAll restores everything but what other sessions share. The order of the steps matters:
// code is loaded and memory is placed when a device opens, before any object is made.
func (s *Session) restoreAll(r *core.Decoder) error {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	steps := []func(*core.Decoder) error{
		s.restoreCounters, s.memory.RestoreWindows, s.memory.RestorePlaces, s.restoreParse, s.memory.RestoreDevices,
		s.restoreObjects, s.memory.RestoreReservations, s.restoreRelated,
	}
	for _, step := range steps {
		if err := step(r); err != nil {
			return err
		}
	}
	for _, step := range r.Instantiate {
		if err := step(); err != nil {
			return err
		}
	}
	for _, step := range r.Finish {
		if err := step(); err != nil {
			return err
		}
	}
	return s.memory.RestoreFaults(r)
}

// reopenTime is how long to wait for other sessions whose memory this one has.
const reopenTime = 60 * time.Second

// reopen answers other sessions again, which may be waiting for that, and then opens what this
// session has imported. No lock is held, and no calls arrive yet.
func (s *Session) reopen(r *core.Decoder) error {
	if r.In.Exporter != (ipc.ID{}) {
		if err := s.core.Exports.Resume(r.In.Exporter); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.core.Options.Patience, reopenTime))
	defer cancel()
	if err := s.memory.Reopen(ctx); err != nil {
		return err
	}
	return s.streams.Reopen(ctx)
}

// indexLimit is far above what any program reaches, and leaves room for going on.
const indexLimit = 1 << 31

// restoreCounters continues all numbering where the saved session stopped.
func (s *Session) restoreCounters(r *core.Decoder) error {
	if len(r.In.Devices) == 0 || len(r.In.Devices) > len(s.core.Devices) {
		return core.Damaged("it had %d GPUs, there are %d", len(r.In.Devices), len(s.core.Devices))
	}
	s.core.Devices = s.core.Devices[:len(r.In.Devices)] // the program has seen no others
	for kind, index := range r.In.Handles {
		if kind == 0 || kind > int(abi.LastKind) || index > indexLimit {
			if index != 0 {
				return core.Damaged("%d objects of kind %d were made", index, kind)
			}
			continue
		}
		s.core.Objects.ReserveHandle(abi.NewHandle(abi.Kind(kind), index))
	}
	s.made.Store(r.In.Made)
	s.completed.Store(r.In.Completed)
	s.core.Captures.Resume(r.In.LastCapture)
	return s.streams.RestoreCounters(r)
}

// restoreParse parses all code.
func (s *Session) restoreParse(r *core.Decoder) error {
	for _, image := range r.In.Images {
		parsed, err := fatbin.Parse(image)
		if err != nil {
			return core.Damaged("code: %v", err)
		}
		r.Images = append(r.Images, core.Image{Kept: s.core.Objects.Images.Keep(image), Parsed: parsed})
	}
	return nil
}

// restoreObjects restores every object, in the order in which they were made.
func (s *Session) restoreObjects(r *core.Decoder) error {
	for i := range r.In.Objects {
		if err := s.restoreObject(r, &r.In.Objects[i]); err != nil {
			return fmt.Errorf("%s: %w", name(r.In.Objects[i].Kind, r.In.Objects[i].ID), err)
		}
	}
	for _, image := range r.Images { // each user holds its own reference
		s.core.Objects.Images.Discard(image.Kept)
	}
	return nil
}

// name is how an error calls an object.
func name(kind abi.Kind, id uint64) string {
	if kind > abi.LastKind {
		return fmt.Sprintf("memory at %#x", id)
	}
	return abi.Handle(id).String()
}

// restoreObject enters one object.
func (s *Session) restoreObject(r *core.Decoder, in *saved.Object) error {
	o := &object.Object{ID: in.ID, Kind: in.Kind}
	if in.Kind <= abi.LastKind {
		if o.Handle().Kind() != in.Kind || o.Handle().Index() == 0 || o.Handle().Index() > indexLimit {
			return core.Damaged("it is no %v", in.Kind)
		}
		s.core.Objects.ReserveHandle(o.Handle())
	}
	if s.core.Objects.Get(in.ID) != nil {
		return core.Damaged("it is there twice")
	}
	if in.Owner != 0 {
		if o.Parent = s.core.Objects.Get(in.Owner); o.Parent == nil {
			return core.Damaged("its parent %#x is not there", in.Owner)
		}
	}
	var err error
	if o.State, err = s.restoreState(r, o, in.State); err != nil {
		return err
	}
	s.core.Objects.Add(o)
	return nil
}

// restoreState makes what the topic of an object keeps with it.
func (s *Session) restoreState(r *core.Decoder, o *object.Object, in saved.State) (core.State, error) {
	for _, t := range s.core.Topics {
		if state, err := t.Restore(r, o, in); state != nil || err != nil {
			return state, err
		}
	}
	return nil, core.Damaged("it is of an unknown kind")
}

// restoreRelated finishes what had to wait for younger objects.
func (s *Session) restoreRelated(r *core.Decoder) error {
	if err := s.memory.RestorePools(r); err != nil {
		return err
	}
	if err := s.contexts.RestorePrimaries(r); err != nil {
		return err
	}
	return s.graphs.RestoreRelations(r)
}
