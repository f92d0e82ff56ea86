package order

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

// TestImage: what an agent reports of an image is kept, and shown without its key. A field that is
// new must be converted, too.
func TestImage(t *testing.T) {
	view := &api.Image{
		Replica: 1, Attempt: 2, Node: "a", Shared: true, Dir: "/d", Generation: 3, Work: "/w", UnixMs: 1_700_000_000_123,
		Bytes: 5, WrittenBytes: 6, PauseUs: 7, Gpus: []uint32{4, 2}, Copies: []string{"b"},
	}
	gpus := []int{4, 2}
	got := ImageOf(&api.Report{Image: view, ImageKey: []byte("secret")}, gpus)
	gpus[0] = 9 // the leader changes its list later
	want := &record.Image{
		Replica: 1, Attempt: 2, Node: "a", Shared: true, Dir: "/d", Generation: 3, Work: "/w", Key: []byte("secret"),
		GPUs: []int{4, 2}, Copies: []string{"b"}, At: time.UnixMilli(1_700_000_000_123).UTC(), Bytes: 5, WrittenBytes: 6, Pause: 7 * time.Microsecond,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for i := range reflect.ValueOf(*want).NumField() {
		name := reflect.TypeOf(*want).Field(i).Name
		if reflect.ValueOf(*want).Field(i).IsZero() && name != "Removed" && name != "Cut" { // these are the leader's
			t.Errorf("the test does not fill %s", name)
		}
	}
	if shown := ImageView(got); !proto.Equal(shown, view) {
		t.Errorf("shown %v, want %v", shown, view)
	}
}

// TestNoImage: a report without an image has none.
func TestNoImage(t *testing.T) {
	if got := ImageOf(&api.Report{ImageKey: []byte("secret")}, []int{1}); got != nil {
		t.Errorf("got %v", got)
	}
	if got := ImageOf(nil, nil); got != nil {
		t.Errorf("no report: %v", got)
	}
	if got := ImageView(nil); got != nil {
		t.Errorf("shown %v", got)
	}
}

// TestMayFetch: a node may have the image from which a live replica of it starts, of the node that
// has it, and no other.
func TestMayFetch(t *testing.T) {
	none := func(*record.Image) bool { return false }
	make := func() (*record.Launch, *api.MayFetchRequest) {
		l := training()
		l.Images = []record.Image{{Node: "a", Dir: "/d", Generation: 3, Replica: 2, Attempt: 1, Work: "/w"}}
		l.State.Replicas[2].Image = l.Images[0].Name()
		return l, &api.MayFetchRequest{
			Attempt: &api.Attempt{Launch: l.ID, Replica: 2, Attempt: 1}, Generation: 3, Node: "b",
		}
	}
	l, asked := make()
	want := &api.MayFetchReply{Owner: "ada", Work: "/w", Processes: 2}
	if got := MayFetch(l, "a", asked, none); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, change := range map[string]func(*record.Launch, *api.MayFetchRequest){
		"another node asks":     func(_ *record.Launch, asked *api.MayFetchRequest) { asked.Node = "c" },
		"another generation":    func(_ *record.Launch, asked *api.MayFetchRequest) { asked.Generation = 2 },
		"another attempt":       func(_ *record.Launch, asked *api.MayFetchRequest) { asked.Attempt.Attempt = 2 },
		"another replica":       func(_ *record.Launch, asked *api.MayFetchRequest) { asked.Attempt.Replica = 3 },
		"no replica":            func(_ *record.Launch, asked *api.MayFetchRequest) { asked.Attempt.Replica = 1 << 31 },
		"no attempt":            func(_ *record.Launch, asked *api.MayFetchRequest) { asked.Attempt = nil },
		"the replica has ended": func(l *record.Launch, _ *api.MayFetchRequest) { l.State.Replicas[2].Live = false },
		"from its beginning":    func(l *record.Launch, _ *api.MayFetchRequest) { l.State.Replicas[2].Image = "" },
		"image on another node": func(l *record.Launch, _ *api.MayFetchRequest) {
			l.Images[0].Node = "c"
			l.State.Replicas[2].Image = l.Images[0].Name()
		},
		"shared image": func(l *record.Launch, _ *api.MayFetchRequest) { l.Images[0].Shared = true },
	} {
		l, asked := make()
		change(l, asked)
		if got := MayFetch(l, "a", asked, none); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
