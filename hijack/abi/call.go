package abi

import (
	"fmt"
	"strings"
)

// Call is the permanent number of a call from libphos to a worker. 0 is padding.
type Call uint16

// Class says how a call is served; hijack/spec/README.md explains.
type Class uint8

// Classes of calls. Calls of the specification's other classes are never sent.
const (
	ClassNone  Class = iota
	ClassAsync       // posted, never answered
	ClassSync        // answered by the handler without waiting for a GPU
	ClassWait        // answered, possibly after waiting for a GPU
)

type callInfo struct {
	name      string
	class     Class
	arguments string
}

// Class returns the class of a call, or ClassNone for an unused number.
func (c Call) Class() Class {
	if int(c) < len(calls) {
		return calls[c].class
	}
	return ClassNone
}

// Arguments returns the names of the call's arguments, in the order of the frame: words, then
// arrays. An array's name ends with [] for words or * for bytes.
func (c Call) Arguments() []string {
	if int(c) < len(calls) {
		return strings.Fields(calls[c].arguments)
	}
	return nil
}

// Calls returns all calls, sorted by number.
func Calls() []Call {
	var list []Call
	for number, info := range calls {
		if info.class != ClassNone {
			list = append(list, Call(number))
		}
	}
	return list
}

// String returns the name in the specification: "cuMemAlloc_v2", "launch".
func (c Call) String() string {
	if c.Class() == ClassNone {
		return fmt.Sprintf("call %d", uint16(c))
	}
	return calls[c].name
}
