package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// launches implements api.LaunchesServer.
type launches struct {
	api.UnimplementedLaunchesServer
	cluster *Cluster
}

// submitted is when all launches were submitted.
const submitted = 1_700_000_000_000

// Create queues a launch.
func (s *launches) Create(_ context.Context, request *api.CreateRequest) (*api.CreateReply, error) {
	spec, err := launch.ReadJSON(request.GetSpec())
	if err == nil {
		spec, err = spec.Check()
	}
	if err != nil {
		return nil, err
	}
	reply := &api.CreateReply{}
	if len(s.cluster.Nodes) == 0 {
		reply.Notices = []string{"no node has joined yet: the launch waits for one"}
	}
	if request.GetDryRun() {
		return reply, nil
	}
	s.cluster.Change(func() { reply.Launches, err = s.cluster.create(spec, request) })
	return reply, err
}

// create adds the launches of a request, once.
func (c *Cluster) create(spec launch.Spec, request *api.CreateRequest) (created []*api.Launch, err error) {
	for _, e := range c.launches {
		if e.request != "" && e.request == request.GetRequest() {
			created = append(created, proto.CloneOf(e.view))
		}
	}
	if len(created) > 0 {
		return created, nil
	}
	if ref := request.GetCode(); ref != nil && c.code[string(ref.GetHash())] == nil {
		return nil, api.Invalid("the code of the launch was not sent, or has been removed since")
	}
	c.created++
	for _, each := range spec.Expand() {
		e := &entry{view: viewOf(each), spec: each, request: request.GetRequest(), code: request.GetCode()}
		c.add(e)
		created = append(created, proto.CloneOf(e.view))
	}
	return created, nil
}

// viewOf returns a queued launch.
func viewOf(spec launch.Spec) *api.Launch {
	view := &api.Launch{Name: spec.Name, Priority: int32(spec.Priority), SubmittedUnixMs: submitted}
	for _, job := range spec.Jobs {
		for i := range job.Replicas.Max {
			view.Replicas = append(view.Replicas, &api.Replica{Job: job.Name, Index: uint32(i), Phase: "pending"})
		}
		for _, process := range job.Processes {
			view.WantedGpus += uint32(process.Resources.GPUs * job.Replicas.Min)
		}
	}
	return view
}

// List returns the launches, the newest first.
func (s *launches) List(_ context.Context, request *api.ListRequest) (*api.ListReply, error) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return &api.ListReply{Launches: s.cluster.list(request)}, nil
}

// list returns copies of the launches that a request asks for.
func (c *Cluster) list(request *api.ListRequest) (found []*api.Launch) {
	entries := slices.Clone(c.launches)
	if request.After == nil {
		slices.Reverse(entries)
	}
	for _, e := range entries {
		named := slices.ContainsFunc(request.GetIds(), func(id string) bool { return c.find(id) == e })
		switch {
		case len(request.GetIds()) > 0 && !named, len(request.GetIds()) == 0 && !request.GetEnded() && e.ended():
			continue
		case request.GetLimit() > 0 && len(found) == int(request.GetLimit()):
			return found
		}
		if e.onPage(request) {
			found = append(found, e.listed(request))
		}
	}
	return found
}

// onPage reports whether a launch has the number and phase that a request asks for.
func (e *entry) onPage(request *api.ListRequest) bool {
	return (request.GetBefore() == 0 || e.view.GetNumber() < request.GetBefore()) &&
		(request.After == nil || e.view.GetNumber() > request.GetAfter()) &&
		(len(request.GetPhases()) == 0 || slices.Contains(request.GetPhases(), e.view.GetPhase())) &&
		(request.GetOwner() == "" || request.GetOwner() == e.view.GetOwner())
}

// listed returns a copy of a launch, with its history if the request asks for it.
func (e *entry) listed(request *api.ListRequest) *api.Launch {
	view := proto.CloneOf(e.view)
	if !request.GetHistory() {
		view.History = nil
	}
	return view
}

// ended reports whether a launch has ended.
func (e *entry) ended() bool { return e.view.GetPhase() == string(launch.Ended) }

// named calls use with a launch, and returns an error if there is none.
func (s *launches) named(id string, use func(*entry) error) (err error) {
	s.cluster.Change(func() {
		e := s.cluster.find(id)
		if e == nil {
			err = fmt.Errorf("no such launch: %q: %w", id, api.ErrNotFound)
			return
		}
		err = use(e)
	})
	return err
}

// Get returns a launch.
func (s *launches) Get(_ context.Context, request *api.GetRequest) (reply *api.GetReply, err error) {
	return reply, s.named(request.GetId(), func(e *entry) (err error) {
		reply = &api.GetReply{Launch: proto.CloneOf(e.view)}
		reply.Spec, err = e.spec.JSON()
		return err
	})
}

// Watch sends the launches that a request asks for, and again after each change.
func (s *launches) Watch(request *api.ListRequest, stream api.Launches_WatchServer) error {
	for complete := true; ; complete = false {
		s.cluster.mu.Lock()
		found, changed := s.cluster.list(request), s.cluster.changed
		s.cluster.mu.Unlock()
		if err := stream.Send(&api.WatchReply{Launches: found, Complete: complete}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
		request = &api.ListRequest{Ended: true, Ids: request.GetIds(), Owner: request.GetOwner()} // changes have no limit
	}
}

// act changes a launch that has not ended.
func (s *launches) act(request *api.ActRequest, change func(*entry)) (reply *api.ActReply, err error) {
	return reply, s.named(request.GetId(), func(e *entry) error {
		if e.ended() {
			return fmt.Errorf("%w: launch %d has ended", launch.ErrRefused, e.view.GetNumber())
		}
		change(e)
		reply = &api.ActReply{Launch: proto.CloneOf(e.view)}
		return nil
	})
}

// Stop ends a launch.
func (s *launches) Stop(_ context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.act(request, func(e *entry) { e.end(130, launch.Stopped, "stopped by "+s.cluster.Owner) })
}

// Suspend suspends a launch.
func (s *launches) Suspend(_ context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.act(request, func(e *entry) { e.view.Phase = string(launch.Suspended) })
}

// Resume queues a launch again.
func (s *launches) Resume(_ context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.act(request, func(e *entry) { e.view.Phase = string(launch.Queued) })
}

// Rerun creates a launch with the description of one that has ended.
func (s *launches) Rerun(_ context.Context, request *api.ActRequest) (*api.CreateReply, error) {
	reply := &api.CreateReply{}
	return reply, s.named(request.GetId(), func(e *entry) (err error) {
		if !e.ended() {
			return fmt.Errorf("%w: launch %d is %s; stop it first", launch.ErrRefused, e.view.GetNumber(), e.view.GetPhase())
		}
		reply.Launches, err = s.cluster.create(e.spec, &api.CreateRequest{Code: e.code})
		return err
	})
}

// Why says why a launch waits.
func (s *launches) Why(_ context.Context, request *api.GetRequest) (*api.WhyReply, error) {
	reply := &api.WhyReply{}
	return reply, s.named(request.GetId(), func(e *entry) error {
		reply.Launch, reply.Reasons = proto.CloneOf(e.view), e.reasons
		return nil
	})
}

// Training returns what the training of a launch says of itself.
func (s *launches) Training(_ context.Context, request *api.GetRequest) (*api.TrainingReply, error) {
	reply := &api.TrainingReply{}
	return reply, s.named(request.GetId(), func(e *entry) error {
		if reply.Status = e.trains; reply.Status == nil {
			return fmt.Errorf("%w: it does not train", api.ErrNotFound)
		}
		return nil
	})
}

// Logs sends the lines of a launch.
func (s *launches) Logs(request *api.LogsRequest, stream api.Launches_LogsServer) error {
	id, _, _ := strings.Cut(request.GetWhat(), "/")
	for sent := 0; ; {
		var lines []*api.LogLine
		var over bool
		var changed chan struct{}
		err := s.named(id, func(e *entry) error { lines, over = e.lines, e.ended(); return nil })
		if err != nil {
			return err
		}
		s.cluster.mu.Lock()
		changed = s.cluster.changed
		s.cluster.mu.Unlock()
		if tail := int(request.GetTail()); sent == 0 && tail > 0 {
			sent = max(0, len(lines)-tail)
		}
		for ; sent < len(lines); sent++ {
			if lines[sent].GetUnixNs() < request.GetSinceUnixNs() {
				continue
			}
			if err := stream.Send(&api.LogsReply{Lines: lines[sent : sent+1]}); err != nil {
				return err
			}
		}
		if over || !request.GetFollow() {
			return nil
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// Events sends what has happened.
func (s *launches) Events(request *api.EventsRequest, stream api.Launches_EventsServer) error {
	for sent := -1; ; {
		s.cluster.mu.Lock()
		events, changed := s.cluster.events, s.cluster.changed
		s.cluster.mu.Unlock()
		if tail := int(request.GetTail()); sent < 0 && tail > 0 {
			sent = len(events) - tail
		}
		for sent = max(0, sent); sent < len(events); sent++ {
			each := events[sent]
			if each.GetUnixMs() < request.GetSinceUnixMs() {
				continue
			}
			if id := request.GetLaunch(); id != "" && id != each.GetLaunch() {
				continue
			}
			if err := stream.Send(each); err != nil {
				return err
			}
		}
		if !request.GetFollow() {
			return nil
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// FindCode reports whether code is there.
func (s *launches) FindCode(_ context.Context, ref *api.CodeRef) (*api.FindCodeReply, error) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return &api.FindCodeReply{Found: s.cluster.code[string(ref.GetHash())] != nil}, nil
}

// SendCode keeps code that has its hash.
func (s *launches) SendCode(stream api.Launches_SendCodeServer) error {
	var ref *api.CodeRef
	var content bytes.Buffer
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if ref == nil {
			ref = part.GetRef()
		}
		content.Write(part.GetData())
	}
	sum := blake3.Sum256(content.Bytes())
	if !bytes.Equal(sum[:], ref.GetHash()) || uint64(content.Len()) != ref.GetBytes() {
		return api.Invalid("the code does not have the hash that was announced")
	}
	s.cluster.Change(func() { s.cluster.code[string(sum[:])] = content.Bytes() })
	return stream.SendAndClose(ref)
}
