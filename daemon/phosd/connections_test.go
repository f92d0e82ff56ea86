package phosd_test

import (
	"os/exec"
	"testing"
)

// Only the user with too many connections is refused.
func TestConnectionsOfAUser(t *testing.T) {
	const ordinary, other = 65534, 65533
	l := newLab(t, nil)
	as := func(uid uint32) *program {
		return l.run(func(command *exec.Cmd) {
			asUser(uid)(command)
			command.Env = append(command.Env, requesterRole+"=1")
		})
	}
	greedy := as(ordinary)
	greedy.do("64")
	greedy.says("answered 64 <nil>")
	greedy.do("67")
	greedy.says("answered 64 resources exhausted: this user has 64 connections to phosd open already")
	bystander := as(other)
	bystander.do("3")
	bystander.says("answered 3 <nil>")
	l.status() // and root
	// Those that are closed make room.
	greedy.do("0")
	greedy.says("answered 0 <nil>")
	l.eventually("there is room again", func() bool {
		greedy.do("1")
		return greedy.says("answered") == "answered 1 <nil>"
	})
}
