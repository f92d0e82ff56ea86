package abi

import (
	"fmt"
	"strings"
)

// Call is the permanent number of a call that travels from libphos to a worker. 0 is padding.
type Call uint16

// Class says how a call is served; hijack/spec/README.md explains.
type Class uint8

// Classes of calls. The others of the specification never travel.
const (
	ClassNone  Class = iota
	ClassAsync       // posted, never answered
	ClassSync        // answered by the handler without waiting for a GPU
	ClassWait        // answered, perhaps after waiting for a GPU
)

type callInfo struct {
	name      string
	class     Class
	arguments string
}

// Class is ClassNone for a number that is no call.
func (c Call) Class() Class {
	if int(c) < len(calls) {
		return calls[c].class
	}
	return ClassNone
}

// Arguments names what travels with the call, in the order in which it lies in a frame: words, then
// arrays, which have a mark behind the name: [] for one of words, * for bytes.
func (c Call) Arguments() []string {
	if int(c) < len(calls) {
		return strings.Fields(calls[c].arguments)
	}
	return nil
}

// Calls lists all calls in the order of their numbers.
func Calls() []Call {
	var list []Call
	for number, info := range calls {
		if info.class != ClassNone {
			list = append(list, Call(number))
		}
	}
	return list
}

// String is the name in the specification: "cuMemAlloc_v2", "launch".
func (c Call) String() string {
	if c.Class() == ClassNone {
		return fmt.Sprintf("call %d", uint16(c))
	}
	return calls[c].name
}
