package record

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/golden"
)

// at is a time that all records of the test have.
var at = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// someLaunch returns a launch with all fields of version 1 set.
func someLaunch(t *testing.T) *Launch {
	t.Helper()
	spec, err := launch.ReadTOML([]byte(`
		name = "digits"
		[[jobs]]
		name = "main"
		replicas = 2
		[[jobs.processes]]
		command = ["python3", "train.py"]
		resources = { gpus = 1, memory = "2GiB" }`))
	if err != nil {
		t.Fatal(err)
	}
	if spec, err = spec.Check(); err != nil {
		t.Fatal(err)
	}
	l := &Launch{
		ID: "l-abcdefghij", Number: 7, Owner: "ada", By: "ada", Request: "r1",
		Submitted: at, Queued: at, Started: at, Placed: at, Runs: 1, RanBefore: time.Minute,
		Code: Code{Hash: strings.Repeat("0f", 32), Bytes: 123}, Script: []byte("import phos\n"), State: launch.New(spec),
	}
	l.AddEvent(Event{At: at, Epoch: 3, Kind: "queued", Text: "submitted by ada"})
	l.OpenSpan(Span{Replica: 1, Attempt: 1, Node: "a", From: at})
	l.CloseSpan(1, 1, at.Add(time.Second))
	return l
}

// withImages returns a launch that also has the fields of version 2.
func withImages(t *testing.T) *Launch {
	l := someLaunch(t)
	l.Saved, l.Saves, l.SaveProblem = at, 2, "disk full"
	l.AddImage(Image{
		Replica: 1, Attempt: 1, Node: "a", Shared: true, Dir: "/images/l-abcdefghij.1.1", Generation: 3,
		Work: "/var/lib/phos-agent/work/l-abcdefghij.1.1", Key: []byte("secret"), GPUs: []int{2}, At: at, Bytes: 1 << 30, WrittenBytes: 1 << 20,
		Pause: 5 * time.Millisecond,
	})
	return l
}

// someNode returns a node with all fields set.
func someNode() *Node {
	n := &Node{
		Name: "a", Joined: at, Key: "sha256:0f", Cluster: "lab", Shard: "one", Labels: map[string]string{"rack": "r1"},
		Cordoned: true, Draining: true, Address: "198.18.0.1", BootID: "b", Version: "0.1.0", Gone: true, GoneAt: at,
		Inventory: Inventory{
			CPUs: 8, MemoryBytes: 1 << 34, OS: "Debian", Kernel: "6.1", Phosd: "0.1.0", PhosdError: "no phosd",
			ChoosesGPUs: true, ImagesPort: 9413, SavesTogether: true, Networks: true,
			GPUs: []GPU{{Index: 1, Name: "Soft", UUID: "GPU-1", MemoryBytes: 1 << 33, Software: true, Foreign: 1, Bad: "lost"}},
		},
	}
	n.AddEvent(Event{At: at, Epoch: 3, Kind: "joined"})
	return n
}

// someQuotas returns quotas with all fields set.
func someQuotas() Quotas {
	limit := func(l Limit) *Limit { return &l }
	return Quotas{
		Default:  Quota{GPUs: limit(4), Launches: limit(20), CodeBytes: limit(1 << 30)},
		Accounts: map[string]Quota{"ada": {GPUs: limit(8), Launches: limit(NoLimit)}, "bob": {GPUs: limit(0)}},
	}
}

// TestQuotas: an account has its own limits, and the default's where it has none.
func TestQuotas(t *testing.T) {
	quotas := someQuotas()
	for account, want := range map[string][3]int64{"ada": {8, -1, 1 << 30}, "bob": {0, 20, 1 << 30}, "eve": {4, 20, 1 << 30}} {
		got := quotas.Of(account)
		for i, limit := range []*Limit{got.GPUs, got.Launches, got.CodeBytes} {
			if want[i] < 0 && limit != nil || want[i] >= 0 && (limit == nil || int64(*limit) != want[i]) {
				t.Errorf("limit %d of %s is %v, want %d", i, account, limit, want[i])
			}
			if limit.Exceeded(uint64(max(want[i], 0))) || limit.Exceeded(uint64(max(want[i], 0)+1)) != (want[i] >= 0) {
				t.Errorf("limit %d of %s is exceeded by other amounts than those above %d", i, account, want[i])
			}
		}
	}
	damaged := strings.Replace(string(quotas.Encode()), `"gpus":8`, `"gpus":-2`, 1)
	if _, err := DecodeQuotas([]byte(damaged)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a negative limit: %v", err)
	}
}

// TestFormat: records are written as the files of the newest version say, and those of all versions
// are read.
func TestFormat(t *testing.T) {
	l, n, c := someLaunch(t), someNode(), &Cluster{ID: "c1", Created: at}
	leaving := withImages(t)
	leaving.State.Replicas[0].Leaving = true
	copied := withImages(t)
	copied.State.Replicas[0].Leaving = true
	copied.Images[0].Removed = true
	copied.Images[0].Copies, copied.Asked, copied.MoveTo = []string{"b", "c"}, 3, "c"
	cut := copied.Clone()
	cut.Images[0].Cut, cut.State.Ending, cut.Cuts = 5, true, 6
	cut.Network, cut.Prefix = 7, "10.213.7.0/24"
	golden.Check(t, "testdata/launch.v5.json", cut.Encode())
	golden.Check(t, "testdata/node.v3.json", n.Encode())
	golden.Check(t, "testdata/cluster.v1.json", c.Encode())
	controller := Controller{Name: "c", Address: "198.18.0.1:7411", Version: "0.1.0"}
	golden.Check(t, "testdata/controller.v1.json", controller.Encode())
	quotas := someQuotas()
	golden.Check(t, "testdata/quotas.v1.json", quotas.Encode())
	if got, err := DecodeQuotas(quotas.Encode()); err != nil || !reflect.DeepEqual(got, quotas) {
		t.Errorf("got %+v, %v", got, err)
	}
	uploads := Uploads{Account: "ada", Code: map[string]Upload{"0f": {Bytes: 1 << 20, Sent: at}}}
	golden.Check(t, "testdata/uploads.v1.json", uploads.Encode())
	if got, err := DecodeUploads(uploads.Encode()); err != nil || !reflect.DeepEqual(got, uploads) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := DecodeController(controller.Encode()); err != nil || got != controller {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := DecodeLaunch(l.Encode()); err != nil || !reflect.DeepEqual(&got, l) {
		t.Errorf("got %+v, %v", got, err)
	}
	for version, want := range map[int]*Launch{1: l, 2: withImages(t), 3: leaving, 4: copied, 5: cut} {
		text, err := os.ReadFile(fmt.Sprintf("testdata/launch.v%d.json", version))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeLaunch(text); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("of version %d: got %+v, %v", version, got, err)
		}
	}
	apart, old := someNode(), someNode()
	apart.Inventory.SavesTogether, apart.Inventory.Networks = false, false
	old.Inventory.ChoosesGPUs, old.Inventory.ImagesPort, old.Inventory.SavesTogether = false, 0, false
	old.Inventory.Networks = false
	for version, want := range map[int]*Node{1: old, 2: apart, 3: n} {
		text, err := os.ReadFile(fmt.Sprintf("testdata/node.v%d.json", version))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeNode(text); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("of version %d: got %+v, %v", version, got, err)
		}
	}
	if got, err := DecodeNode(n.Encode()); err != nil || !reflect.DeepEqual(&got, n) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := DecodeCluster(c.Encode()); err != nil || !reflect.DeepEqual(&got, c) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestOthers: what no version or a newer one has written is refused by its name.
func TestOthers(t *testing.T) {
	text := string(someNode().Encode())
	for _, test := range []struct {
		text string
		want error
	}{
		{strings.Replace(text, `"version":3`, `"version":4`, 1), ErrNewer},
		{strings.Replace(text, `"version":3`, `"version":0`, 1), ErrDamaged},
		{strings.Replace(text, `"kind":"node"`, `"kind":"launch"`, 1), ErrDamaged},
		{strings.Replace(text, `"cordoned"`, `"condoned"`, 1), ErrDamaged},
		{strings.Replace(text, `"name":"a",`, ``, 1), ErrDamaged},
		{text[:len(text)/2], ErrDamaged},
		{"", ErrDamaged},
		{"[]", ErrDamaged},
	} {
		if _, err := DecodeNode([]byte(test.text)); !errors.Is(err, test.want) || len(err.Error()) > 300 {
			t.Errorf("%.80s: got %v, want %v", test.text, err, test.want)
		}
	}
}

// TestLimits: a record keeps the last events and spans only, and their numbers go on.
func TestLimits(t *testing.T) {
	l := someLaunch(t)
	for range 1000 {
		l.AddEvent(Event{Kind: "x"})
		l.OpenSpan(Span{})
	}
	l.State.Cut = map[int]string{0: (&Image{Node: "a", Generation: 0}).Name()}
	for i := range 100 {
		l.AddImage(Image{Node: "a", Generation: uint64(i)})
	}
	if len(l.Images) != maxImages || l.Image(l.State.Cut[0]) == nil || l.Images[maxImages-1].Generation != 99 {
		t.Errorf("images are %+v", l.Images)
	}
	if len(l.Events) != maxEvents || len(l.Spans) != maxSpans || l.Events[maxEvents-1].Number != 1001 {
		t.Errorf("%d events up to number %d, %d spans", len(l.Events), l.Events[maxEvents-1].Number, len(l.Spans))
	}
}

// TestExecEvents: commands of phos exec push each other out of a launch's events, and nothing else.
func TestExecEvents(t *testing.T) {
	l := someLaunch(t)
	l.Events = nil
	l.AddEvent(Event{Kind: "placed"})
	for range 999 {
		l.AddEvent(Event{Kind: ExecEvent})
	}
	shared, before := l.Events, slices.Clone(l.Events)
	l.AddEvent(Event{Kind: ExecEvent})
	l.AddEvent(Event{Kind: "failed"})
	if len(l.Events) != maxExecEvents+2 || l.Events[0].Kind != "placed" || l.Events[0].Number != 1 {
		t.Fatalf("%d events, and the first is %+v", len(l.Events), l.Events[0])
	}
	for i, e := range l.Events[1:] {
		if want := 1001 - maxExecEvents + 1 + i; e.Number != want {
			t.Errorf("event %d has number %d, want %d", i+1, e.Number, want)
		}
	}
	if !slices.Equal(shared, before) {
		t.Errorf("a reader's list became %+v", shared)
	}
}

// FuzzDecode: no bytes make a reader panic.
func FuzzDecode(f *testing.F) {
	f.Add(someNode().Encode())
	f.Add([]byte(`{"kind":"launch","version":1,"value":{}}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = DecodeLaunch(text)
		_, _ = DecodeNode(text)
		_, _ = DecodeCluster(text)
		_, _ = DecodeController(text)
		_, _ = DecodeQuotas(text)
	})
}
