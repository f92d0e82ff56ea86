package identity

import (
	"errors"
	"fmt"
)

// Verb is what a caller wants to do.
type Verb string

// All verbs.
const (
	View   Verb = "view"   // read, list and follow
	Create Verb = "create" // submit a launch, make a token
	Change Verb = "change" // stop, save, edit and remove
	Report Verb = "report" // say what is so, as a node
	Renew  Verb = "renew"  // get the next certificate, as a node
)

// Thing is a kind of what a cluster has.
type Thing string

// All things.
const (
	Launch     Thing = "launch"     // with its logs and images; its owner is an account
	Machine    Thing = "machine"    // a node; its owner is the node's name
	Assignment Thing = "assignment" // what a node shall run; its owner is the node's name
	UserToken  Thing = "user token" // its owner is the account that it stands for
	Settings   Thing = "settings"   // of the cluster, with the CA and the tokens by which nodes join
)

// Target is what a caller wants to do something to.
type Target struct {
	Thing Thing
	// Owner is an account or the name of a node, as Thing says; empty if there is none.
	Owner string
}

// ErrForbidden means that a caller may not do something.
var ErrForbidden = errors.New("not allowed")

// party is a row of the table: a group of callers with the same rights.
type party string

const (
	ofNode       party = "node"
	ofController party = "controller"
	ofAdmin      party = "admin"
	ofUser       party = "user"
	ofLocalUser  party = "local user"
	ofViewer     party = "viewer"
)

// extent says to which targets a right extends. The zero extent is no right.
type extent int

const (
	own    extent = iota + 1 // those whose owner the caller is
	always                   // all
)

// act is a column of the table.
type act struct {
	verb  Verb
	thing Thing
}

// rights is the table. What is not in it is not allowed.
var rights = map[party]map[act]extent{
	ofNode: {
		{View, Machine}: own, {Report, Machine}: own, {Renew, Machine}: own,
		{View, Assignment}: own, {Report, Assignment}: own,
	},
	ofController: everything(),
	ofAdmin:      everything(),
	ofUser: {
		{View, Launch}: own, {Create, Launch}: own, {Change, Launch}: own,
		{View, Machine}:   always, // which GPUs there are, and which are free
		{View, UserToken}: own, {Change, UserToken}: own,
	},
	// A token cannot make more tokens: one that was stolen would outlive its removal.
	ofLocalUser: {
		{View, Launch}: own, {Create, Launch}: own, {Change, Launch}: own,
		{View, Machine}:   always,
		{View, UserToken}: own, {Create, UserToken}: own, {Change, UserToken}: own,
	},
	ofViewer: {
		{View, Launch}: always, {View, Machine}: always, {View, Assignment}: always,
		{View, UserToken}: always, {View, Settings}: always,
	},
}

// everything is all rights, but to speak for a node: only a node knows what runs on it.
func everything() map[act]extent {
	all := map[act]extent{}
	for _, verb := range []Verb{View, Create, Change} {
		for _, thing := range []Thing{Launch, Machine, Assignment, UserToken, Settings} {
			all[act{verb, thing}] = always
		}
	}
	return all
}

// May reports whether a caller may do something to a target.
func May(c Caller, verb Verb, target Target) bool {
	group, name := partyOf(c)
	switch rights[group][act{verb, target.Thing}] {
	case always:
		return true
	case own:
		return name != "" && name == target.Owner
	}
	return false
}

// Check returns ErrForbidden if the caller may not do something to a target.
func Check(c Caller, verb Verb, target Target) error {
	if May(c, verb, target) {
		return nil
	}
	if target.Owner == "" {
		return fmt.Errorf("%s: %s %s: %w", c, verb, target.Thing, ErrForbidden)
	}
	return fmt.Errorf("%s: %s %s of %s: %w", c, verb, target.Thing, target.Owner, ErrForbidden)
}

// partyOf returns the row of a caller, and the name by which it owns something. A caller with a
// kind or role that is not known has no row.
func partyOf(c Caller) (group party, name string) {
	switch c.Kind {
	case Node:
		return ofNode, c.Name
	case Controller:
		return ofController, ""
	case User, Local:
		return partyOfRole(c), c.Account
	}
	return "", ""
}

// partyOfRole returns the row of a user.
func partyOfRole(c Caller) party {
	switch {
	case c.Role == RoleAdmin:
		return ofAdmin
	case c.Role == RoleViewer:
		return ofViewer
	case c.Role == RoleUser && c.Kind == Local:
		return ofLocalUser
	case c.Role == RoleUser:
		return ofUser
	}
	return ""
}
