// Package account looks up the names of user accounts.
package account

import (
	"os/user"
	"strconv"
)

// Name returns the name of a user, or the number where this machine does not know the user.
func Name(uid uint32) string {
	if name := KnownName(uid); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// KnownName returns the name of a user, or "" where this machine does not know the user.
func KnownName(uid uint32) string {
	found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return found.Username
}
