package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"
)

const sessionDir = "daemon/worker/session"

// topic is a package below daemon/worker/session that handles calls.
type topic struct {
	name  string   // of the package
	files []string // of hijack/spec: their calls are the topic's
	calls []string // further calls, which are not the topic of their file
}

// topics lists all of them, in the order of Session.topics.
var topics = []topic{
	{"streams", []string{"stream", "event"}, []string{"ipcExportEvent", "ipcOpenEvent"}},
	{"memory", []string{"memory", "pool", "device", "vmm", "ipc"}, nil},
	{"copies", []string{"copy"}, []string{"streamMemOps"}},
	{"contexts", []string{"context"}, nil},
	{"code", []string{"module", "library", "link", "launch", "tensormap"}, nil},
	{"graphs", []string{"graph", "capture"}, nil},
}

// topicOf returns the topic that handles a call.
func topicOf(c *call) (topic, error) {
	for _, t := range topics {
		if slices.Contains(t.calls, c.name) {
			return t, nil
		}
	}
	for _, t := range topics {
		if slices.Contains(t.files, c.topic) {
			return t, nil
		}
	}
	return topic{}, fmt.Errorf(
		"%s: %s belongs to no topic: name its file in hijack/gen/go_dispatch.go",
		c.where,
		c.name,
	)
}

// checkTopics finds names in the table of topics that the specification does not have.
func (s *spec) checkTopics() error {
	for _, t := range topics {
		for _, name := range t.files {
			if !slices.ContainsFunc(s.calls, func(c *call) bool { return c.framed() && c.topic == name }) {
				return fmt.Errorf("topic %s: no call of %s.api is forwarded", t.name, name)
			}
		}
		for _, name := range t.calls {
			if !slices.ContainsFunc(s.calls, func(c *call) bool { return c.framed() && c.name == name }) {
				return fmt.Errorf("topic %s: call %s is not forwarded", t.name, name)
			}
		}
	}
	return nil
}

// goTopics writes package session's table from numbers to topics.
func goTopics(s *spec) ([]byte, error) {
	if err := s.checkTopics(); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(goBanner + "package session\n\nimport \"github.com/phos-gpu/phos/hijack/abi\"\n\n")
	b.WriteString("// Topics that handle calls; 0 is none.\nconst (\n")
	for i, t := range topics {
		fmt.Fprintf(&b, "\t%sTopic = %d\n", t.name, i+1)
	}
	fmt.Fprintf(&b, "\ttopicCount = %d\n)\n\n", len(topics)+1)
	b.WriteString("// topicOf has the topic of each call, by its number.\nvar topicOf = [...]uint8{\n")
	for _, c := range s.framedCalls() {
		t, err := topicOf(c)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\tabi.Call%s: %sTopic,\n", c.goName(), t.name)
	}
	b.WriteString("}\n")
	return format.Source([]byte(b.String()))
}

// dispatchers are the generated files of all topics.
func dispatchers() []output {
	var all []output
	for _, t := range topics {
		all = append(all, output{
			fmt.Sprintf("%s/%s/zz_dispatch.go", sessionDir, t.name),
			func(s *spec) ([]byte, error) { return goDispatch(s, t) },
		})
	}
	return all
}

// goDispatch writes a topic's switch from numbers to handlers.
func goDispatch(s *spec, t topic) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, goBanner+`package %s

import (
	"github.com/phos-gpu/phos/%s/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Dispatch decodes a call of the topic, runs its handler, and returns its reply, nil for none.
func (s *%s) Dispatch(call *core.Call) (wire.Reply, error) {
	switch call.Number {
`, t.name, sessionDir, capitalize(t.name))
	for _, c := range s.framedCalls() {
		if mine, err := topicOf(c); err != nil || mine.name != t.name {
			continue // goTopics returns the error
		}
		writeCase(&b, c)
	}
	b.WriteString("\t}\n\treturn nil, core.ErrUnknownCall\n}\n")
	return format.Source([]byte(b.String()))
}

func writeCase(b *strings.Builder, c *call) {
	fmt.Fprintf(b, "\tcase abi.Call%s:\n", c.goName())
	sentScalars, sentArrays := c.sent()
	backScalars, backArrays := c.returned()
	args, reply := "call", "nil"
	if len(sentScalars)+len(sentArrays) > 0 {
		fmt.Fprintf(b, "\t\tvar in wire.%s\n", c.goName())
		b.WriteString("\t\tif err := in.Decode(call.Payload); err != nil {\n\t\t\treturn nil, err\n\t\t}\n")
		args += ", &in"
	}
	if len(backScalars)+len(backArrays) > 0 {
		fmt.Fprintf(b, "\t\tout := new(wire.%sReply)\n", c.goName())
		args, reply = args+", out", "out"
	}
	fmt.Fprintf(b, "\t\treturn %s, s.%s(%s)\n", reply, lower(c.goName()), args)
}
