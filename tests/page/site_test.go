package page

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/pipeline/progress/progresstest"
	"github.com/phos-gpu/phos/cluster/web"
)

// site is a made-up cluster with its page.
type site struct {
	*testing.T
	cluster *apitest.Cluster
	server  *web.Server
	address string
	now     int64
}

// ada is the only caller.
type ada struct{}

func (ada) Local(ctx context.Context, _ net.Conn) context.Context { return ctx }
func (ada) Token(ctx context.Context, _ string) context.Context   { return ctx }
func (ada) Of(context.Context) (identity.Caller, error) {
	return identity.Caller{Kind: identity.Local, Name: "ada", Account: "ada", Role: identity.RoleAdmin}, nil
}

func newSite(t *testing.T) *site {
	s := &site{T: t, cluster: apitest.New(t), now: time.Now().UnixMilli()}
	s.serve("127.0.0.1:0")
	return s
}

// serve starts the server of the page.
func (s *site) serve(address string) {
	s.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		s.Fatal(err)
	}
	s.address = listener.Addr().String()
	launches, cluster := s.cluster.Services()
	s.server = web.NewServer(web.Parts{
		Launches: launches, Cluster: cluster, Callers: ada{}, Log: slog.New(slog.DiscardHandler),
		Translate: func(err error) error { return api.FromStatus(api.ToStatus(err)) },
	}, nil, nil)
	server := s.server
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	s.Cleanup(func() { _ = server.Close() })
}

// url returns the address of a view.
func (s *site) url(view string) string { return "http://" + s.address + "/#/" + view }

// picture returns where a picture of the page is kept.
func (s *site) picture(name string) string {
	dir := os.Getenv("PHOS_SCREENSHOTS")
	if dir == "" {
		dir = s.TempDir()
	}
	return filepath.Join(dir, name+".png")
}

const second, minute, hour = int64(1000), int64(60_000), int64(3_600_000)

// course is a launch as it is made up: its replicas have spans on nodes, in ms before now.
type course struct {
	name, owner, phase, result string
	begin, end                 int64
	spans                      []*api.Span
	replicas                   []*api.Replica
	events                     []*api.Event
	gpus                       uint32
	reason                     string
}

// add adds a launch.
func (s *site) add(c course) *api.Launch {
	at := func(before int64) int64 {
		if before == 0 {
			return 0
		}
		return s.now - before
	}
	history := &api.History{}
	for _, each := range c.spans {
		each.FromUnixMs, each.ToUnixMs = at(each.GetFromUnixMs()), at(each.GetToUnixMs())
		history.Spans = append(history.Spans, each)
		history.Events = append(history.Events, &api.Event{
			UnixMs: each.GetFromUnixMs() + 4*second, Kind: "running", Number: 1,
			Text: fmt.Sprintf("%s.%d on %s", each.GetJob(), each.GetIndex(), each.GetNode()),
		})
	}
	for _, each := range c.events {
		each.UnixMs = at(each.GetUnixMs())
		history.Events = append(history.Events, each)
	}
	view := &api.Launch{
		Name: c.name, Owner: c.owner, Phase: c.phase, Result: c.result, Reason: c.reason, WantedGpus: c.gpus,
		SubmittedUnixMs: at(c.begin), EndedUnixMs: at(c.end), Replicas: c.replicas, History: history,
	}
	for _, r := range c.replicas {
		view.Gpus += uint32(len(r.GetGpus()))
	}
	if len(c.spans) > 0 {
		view.StartedUnixMs = c.spans[0].GetFromUnixMs()
	}
	return s.cluster.Add(view)
}

// span is a time of a replica on a node.
func span(index uint32, attempt uint32, node string, from, to int64) *api.Span {
	return &api.Span{Job: "main", Index: index, Attempt: attempt, Node: node, FromUnixMs: from, ToUnixMs: to}
}

// on is a replica on GPUs of a node.
func on(index, attempt uint32, phase, node string, gpus ...uint32) *api.Replica {
	return &api.Replica{Job: "main", Index: index, Attempt: attempt, Phase: phase, Node: node, Gpus: gpus}
}

// happened is an event of a launch.
func happened(before int64, kind, text string) *api.Event {
	return &api.Event{UnixMs: before, Kind: kind, Text: text, Number: 1}
}

// saved is an event that tells of an image of a replica.
func saved(before int64, replica string) *api.Event {
	return happened(before, "saved", replica+", generation 2 in /shared/images: paused 210ms, 39117 MiB, wrote 812 MiB")
}

// populate makes up a cluster with a launch of every kind.
func (s *site) populate() {
	s.add(course{
		name: "tokenizer", owner: "ada", phase: "ended", result: "completed", begin: 58 * minute, end: 41 * minute, gpus: 1,
		spans:    []*api.Span{span(0, 1, "gpu-01", 55*minute, 41*minute)},
		replicas: []*api.Replica{on(0, 1, "done", "gpu-01")},
	})
	s.add(course{
		name: "sweep-lr-3e4", owner: "grace", phase: "ended", result: "failed", begin: 50 * minute, end: 29 * minute, gpus: 2,
		reason: "process 0 exited with 1", spans: []*api.Span{span(0, 1, "gpu-02", 49*minute, 29*minute)},
		replicas: []*api.Replica{{
			Job: "main", Attempt: 1, Phase: "failed", Node: "gpu-02", Exits: []*api.Exit{{Process: 0, Code: 1}},
		}},
	})
	llama := s.add(course{
		name: "llama-8b-pretrain", owner: "ada", phase: "running", begin: 54 * minute, gpus: 8,
		spans: []*api.Span{
			span(0, 1, "gpu-01", 40*minute, 0), span(1, 1, "gpu-02", 40*minute, 17*minute), span(1, 2, "gpu-03", 16*minute, 0),
		},
		replicas: []*api.Replica{
			on(0, 1, "running", "gpu-01", 0, 1, 2, 3), on(1, 2, "running", "gpu-03", 0, 1, 2, 3),
		},
		events: []*api.Event{
			saved(33*minute, "main.0 on gpu-01"), saved(33*minute, "main.1 on gpu-02"), saved(26*minute, "main.0 on gpu-01"),
			saved(19*minute, "main.0 on gpu-01"), saved(19*minute, "main.1 on gpu-02"),
			happened(15*minute, "restored", "main.1 on gpu-03, from generation 2 in /shared/llama, saved on gpu-02 at 11:41:00"),
			saved(8*minute, "main.0 on gpu-01"), saved(8*minute, "main.1 on gpu-03"),
		},
	})
	s.cluster.Train(llama.GetId(), progresstest.Status(s.T, "gpu-0", 24))
	s.add(course{
		name: "diffusion-eval", owner: "grace", phase: "suspended", begin: 38 * minute, gpus: 2, reason: "suspended by grace",
		spans:    []*api.Span{span(0, 1, "gpu-04", 37*minute, 12*minute)},
		replicas: []*api.Replica{on(0, 1, "pending", "")},
		events:   []*api.Event{happened(13*minute, "stopping", ""), happened(12*minute, "suspended", "suspended by grace")},
	})
	whisper := s.add(course{
		name: "whisper-finetune", owner: "linus", phase: "running", begin: 24 * minute, gpus: 2,
		spans:    []*api.Span{span(0, 1, "gpu-04", 11*minute, 0)},
		replicas: []*api.Replica{on(0, 1, "running", "gpu-04", 0, 1)},
		events: []*api.Event{
			saved(5*minute, "main.0 on gpu-04"), happened(2*minute, "not saved", "main.0 on gpu-04: no room left on /shared"),
		},
	})
	starting := s.add(course{
		name: "bert-distill", owner: "ada", phase: "running", begin: 9 * minute, gpus: 1,
		spans:    []*api.Span{span(0, 1, "gpu-02", 2*second, 0)},
		replicas: []*api.Replica{on(0, 1, "starting", "gpu-02", 0)},
	})
	big := s.add(course{
		name: "mixtral-rlhf", owner: "linus", phase: "queued", begin: 14 * minute, gpus: 16,
		replicas: []*api.Replica{on(0, 0, "pending", ""), on(1, 0, "pending", "")},
	})
	small := s.add(course{
		name: "eval-nightly", owner: "ada", phase: "queued", begin: 3 * minute, gpus: 4,
		replicas: []*api.Replica{on(0, 0, "pending", "")},
	})
	s.cluster.Because(big.GetId(), "it wants 16 GPUs; 9 are free", "llama-8b-pretrain has 8 of them, whisper-finetune 2",
		"2 of 5 nodes: cordoned", "by the owners' estimates it starts in about 40 min")
	s.cluster.Because(small.GetId(), "mixtral-rlhf is ahead, and would start later if this launch took 4 GPUs now",
		"by the owners' estimates it starts in about 44 min")
	s.nodes(llama.GetId(), whisper.GetId(), starting.GetId())
	s.talk(llama.GetId())
}

// talk makes the launch print, and the cluster have events.
func (s *site) talk(id string) {
	for i := range 60 {
		s.cluster.Print(id, &api.LogLine{
			UnixNs: (s.now - int64(60-i)*2*second) * 1e6, Job: "main", Replica: uint32(i % 2), Attempt: 1,
			Text: fmt.Appendf(nil, "step %5d  loss %.4f  %d tokens/s", 12000+i*10, 2.71-float64(i)*0.003, 41800+i*7%400),
		})
	}
	for i, each := range []struct{ kind, node, launch, text string }{
		{"attached", "gpu-03", "", "agent 1.0 at 10.0.0.3:7411"},
		{"node gone", "", id, "gpu-02"},
		{"placed", "", id, "main.1 on gpu-03, GPUs [0 1 2 3]"},
		{"restored", "", id, "main.1 on gpu-03, from generation 2 in /shared/llama, saved on gpu-02 at 11:41:00"},
		{"cordoned", "gpu-05", "", "by ada"},
		{"saved", "", id, "main.0 on gpu-01, generation 4 in /shared/llama: paused 210ms, 39117 MiB, wrote 812 MiB"},
	} {
		s.cluster.Happen(&api.Event{
			UnixMs: s.now - int64(20-3*i)*minute, Kind: each.kind, Node: each.node, Launch: each.launch, Text: each.text,
		})
	}
}

// nodes makes up nodes whose GPUs are in every state.
func (s *site) nodes(llama, whisper, starting string) {
	const gib = 1 << 30
	holders := map[string][]string{
		"gpu-01": {llama, llama, llama, llama}, "gpu-02": {starting}, "gpu-03": {llama, llama, llama, llama},
		"gpu-04": {whisper, whisper},
	}
	for i := range 6 {
		n := &api.Node{
			Name: fmt.Sprintf("gpu-%02d", i+1), State: "ready", Cluster: "lab", Shard: "a", SeenUnixMs: s.now,
			Address: fmt.Sprintf("10.0.0.%d:7411", i+1), Cordoned: i == 4,
			Inventory: &api.Inventory{Cpus: 128, MemoryBytes: 1024 * gib, Os: "Debian GNU/Linux 12"},
		}
		if i == 5 {
			n.State, n.Reason, n.SeenUnixMs = "unreachable", "no renewal for 34 s; its launches are stopped at 60 s", s.now-34*second
		}
		for g := range uint32(8) {
			n.Inventory.Gpus = append(n.Inventory.Gpus, &api.GPU{Index: g, Name: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 * gib})
			if int(g) < len(holders[n.GetName()]) {
				n.Inventory.Gpus[g].Launch = holders[n.GetName()][g]
			}
		}
		s.cluster.Change(func() { s.cluster.Nodes = append(s.cluster.Nodes, n) })
	}
	held := uint64(4 * gib)
	s.cluster.Nodes[3].Inventory.Gpus[6].Foreign = 1
	s.cluster.Nodes[3].Inventory.Gpus[6].ForeignProcesses = []*api.ForeignProcess{{Pid: 123, User: "eve", UsedBytes: &held}}
	s.cluster.Nodes[3].Inventory.Gpus[7].Foreign = 2
	s.cluster.Nodes[1].Inventory.Gpus[7].Bad = "Xid 79: it has fallen off the bus"
}
