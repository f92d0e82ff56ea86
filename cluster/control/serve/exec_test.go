package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// TestOneProcess: a selection means one process that runs, or is refused with what it may mean.
func TestOneProcess(t *testing.T) {
	spec := launch.Spec{Name: "train", Jobs: []launch.Job{
		{Name: "main", Replicas: launch.Replicas{Min: 6, Max: 6}, Processes: make([]launch.Process, 2)},
		{Name: "log", Replicas: launch.Replicas{Min: 1, Max: 1}, Processes: make([]launch.Process, 1)},
	}}
	l := &record.Launch{ID: "l-1", State: launch.New(spec)}
	for i := range l.State.Replicas {
		if r := &l.State.Replicas[i]; i != 1 {
			r.Live, r.Attempt = true, 3
			l.OpenSpan(record.Span{Replica: i, Attempt: 3, Node: fmt.Sprint("n", i)})
		}
	}
	for what, want := range map[string]string{
		"train/log": "l-1/log.0.0 on n6", "train/main.2.1": "l-1/main.2.1 on n2",
		"train/main.0": "2 processes of launch train run; name one: l-1/main.0.0, l-1/main.0.1",
		"train": "11 processes of launch train run; name one: l-1/main.0.0, l-1/main.0.1, l-1/main.2.0, l-1/main.2.1, " +
			"l-1/main.3.0, l-1/main.3.1, l-1/main.4.0, l-1/main.4.1, and 3 more",
		"train/main.1": "nothing runs there", "train/main.0.2": "job main has 2 processes", "train/main.9": "no replica main.9",
	} {
		selected, err := parseSelection(what)
		if err != nil {
			t.Fatal(err)
		}
		at, err := oneProcess(l, selected)
		got := at.String() + " on " + at.node
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
}

// TestMayExec: who may not change a launch, or not be root, runs no command there.
func TestMayExec(t *testing.T) {
	caller := func(kind identity.Kind, role identity.Role, account string, root bool) identity.Caller {
		return identity.Caller{Kind: kind, Name: "x", Role: role, Account: account, AllowRoot: root}
	}
	for _, each := range []struct {
		caller identity.Caller
		owner  string
		want   error
	}{
		{caller(identity.User, identity.RoleUser, "ada", false), "ada", nil},
		{caller(identity.User, identity.RoleUser, "ada", false), "bob", identity.ErrForbidden},
		{caller(identity.User, identity.RoleViewer, "ada", true), "ada", identity.ErrForbidden},
		{caller(identity.Local, identity.RoleAdmin, "bob", false), "ada", nil},
		{caller(identity.Local, identity.RoleAdmin, "bob", false), "root", identity.ErrRootAccount},
		{caller(identity.Local, identity.RoleAdmin, "root", true), "root", nil},
		{caller(identity.User, identity.RoleUser, "root", false), "root", identity.ErrRootAccount},
		{identity.Caller{Kind: identity.Node, Name: "ada"}, "ada", identity.ErrForbidden},
	} {
		if err := mayExec(each.caller, &record.Launch{Owner: each.owner}); !errors.Is(err, each.want) {
			t.Errorf("%v in a launch of %s: %v, want %v", each.caller, each.owner, err, each.want)
		}
	}
}

// TestCheckExec: commands that no node would start are refused where they arrive.
func TestCheckExec(t *testing.T) {
	for command, want := range map[string]error{
		"": api.ErrInvalid, "true": nil, "\xff": nil, strings.Repeat("x", api.MaxExecCommand): api.ErrTooLarge,
	} {
		if err := checkExec(&api.ExecStart{Command: [][]byte{[]byte(command)}}); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", command, err, want)
		}
	}
	if err := checkExec(nil); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("no start: %v", err)
	}
}

// running submits a launch of ada, and has a node run it. It returns the node's stream.
func (w *world) running(node string) (id string, agent api.Agents_AttachClient) {
	w.Helper()
	w.node(node)
	agent, _ = w.attach(node)
	id = w.submit("ada")
	for {
		message, err := agent.Recv()
		if err != nil {
			w.Fatal(err)
		}
		for _, order := range message.GetOrders().GetOrders() {
			at := order.GetAttempt()
			report := &api.Report{Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "running"}
			if err := agent.Send(&api.FromAgent{Message: &api.FromAgent_Report{Report: report}}); err != nil {
				w.Fatal(err)
			}
			return id, agent
		}
	}
}

// carries answers the next question for a command with replies, as a node's agent, and returns the
// stream.
func (w *world) carries(agent api.Agents_AttachClient, node string, replies ...*api.ExecReply) api.Agents_ExecClient {
	w.Helper()
	number := uint64(0)
	for number == 0 {
		message, err := agent.Recv()
		if err != nil {
			w.Fatal(err)
		}
		if message.GetAsk().GetExec() != nil {
			number = message.GetAsk().GetQuestion()
		}
	}
	carrier, err := w.agents().Exec(w.as(node))
	if err != nil {
		w.Fatal(err)
	}
	for _, reply := range append([]*api.ExecReply{{Message: &api.ExecReply_Question{Question: number}}}, replies...) {
		if err := carrier.Send(reply); err != nil {
			w.Fatal(err)
		}
	}
	return carrier
}

// execEvents returns the texts of the events about commands.
func (w *world) execEvents(id string) (texts []string) {
	w.Helper()
	stream, err := w.launches().Events(w.as("ada"), &api.EventsRequest{Launch: id})
	if err != nil {
		w.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return texts
		}
		if event.GetKind() == "exec" {
			texts = append(texts, event.GetText())
		}
	}
}

// TestExecEvent: the events of a launch say which commands were run there, by which user, and how
// they have ended: before the user knows that.
func TestExecEvent(t *testing.T) {
	w := newWorld(t)
	id, agent := w.running("n1")
	long := strings.Repeat("ü", 300)
	for _, test := range []struct {
		words []string
		end   *api.ExecEnd
		want  string
	}{
		{[]string{"sh", "-c", "exit 3"}, &api.ExecEnd{Code: 3}, "ada ran sh -c exit 3 in main.0.0 on n1: exit 3"},
		{[]string{long}, &api.ExecEnd{Signal: 9}, "ada ran " + long[:2*199] + "… in main.0.0 on n1: signal 9"},
		{[]string{"\xff"}, &api.ExecEnd{Code: 127, Error: "there is none"}, "ada ran \ufffd in main.0.0 on n1: exit 127: there is none"},
	} {
		stream := w.exec(id, test.words...)
		w.carries(agent, "n1", &api.ExecReply{Message: &api.ExecReply_End{End: test.end}})
		if reply, err := stream.Recv(); err != nil || reply.GetEnd() == nil {
			t.Fatalf("the end is %v, %v", reply, err)
		}
		if texts := w.execEvents(id); len(texts) == 0 || texts[len(texts)-1] != test.want {
			t.Errorf("the events are %q, want %q", texts, test.want)
		}
	}
	stream := w.exec(id, "cat")
	carrier := w.carries(agent, "n1", &api.ExecReply{Message: &api.ExecReply_Started{Started: &api.ExecStarted{}}})
	if reply, err := stream.Recv(); err != nil || reply.GetStarted().GetNode() != "n1" {
		t.Fatalf("the beginning is %v, %v", reply, err)
	}
	if err := carrier.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the command goes on without its agent")
	}
	if texts := w.execEvents(id); len(texts) != 4 || texts[3] != "ada ran cat in main.0.0 on n1: the connection was lost, and the command was killed" {
		t.Errorf("the events are %q", texts)
	}
}

// exec asks for a command beside the process of a launch.
func (w *world) exec(id string, words ...string) api.Launches_ExecClient {
	w.Helper()
	stream, err := w.launches().Exec(w.as("ada"))
	if err != nil {
		w.Fatal(err)
	}
	start := &api.ExecStart{What: id}
	for _, word := range words {
		start.Command = append(start.Command, []byte(word))
	}
	if err := stream.Send(&api.ExecRequest{Message: &api.ExecRequest_Start{Start: start}}); err != nil {
		w.Fatal(err)
	}
	return stream
}
