package config

import (
	"fmt"
	"os/user"
	"strconv"
)

// Access has the users that may use phosd. Root always may.
type Access struct {
	Users  Names `toml:"users" comment:"users that may use phosd, by name or number; with no users and no groups: every local user"`
	Groups Names `toml:"groups" comment:"groups whose members may use phosd, by name or number; the socket belongs to the first one"`
	Mode   Mode  `toml:"mode" comment:"mode of the socket: 0666, or 0660 for the first of the groups alone"`
}

// Names are names of users or groups.
type Names []string

// Mode is the mode of a file, written in octal.
type Mode uint32

// MarshalText writes the mode in octal.
func (m Mode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

// UnmarshalText reads what MarshalText writes.
func (m *Mode) UnmarshalText(text []byte) error {
	mode, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || mode > 0o777 {
		return fmt.Errorf("%w: %q is not a mode; write it as 0660", ErrInvalid, text)
	}
	*m = Mode(mode)
	return nil
}

// Allowed are the users and groups that may use phosd, by their numbers.
type Allowed struct {
	UIDs, GIDs []uint32
}

// Resolve looks the users and groups up.
func (a Access) Resolve() (allowed Allowed, err error) {
	for _, name := range a.Users {
		uid, err := number(name, func() (string, error) {
			found, err := user.Lookup(name)
			if err != nil {
				return "", err
			}
			return found.Uid, nil
		})
		if err != nil {
			return Allowed{}, &SettingError{"access.users", name, "this machine has no such user"}
		}
		allowed.UIDs = append(allowed.UIDs, uid)
	}
	for _, name := range a.Groups {
		gid, err := number(name, func() (string, error) {
			found, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return found.Gid, nil
		})
		if err != nil {
			return Allowed{}, &SettingError{"access.groups", name, "this machine has no such group"}
		}
		allowed.GIDs = append(allowed.GIDs, gid)
	}
	return allowed, nil
}

// number returns an account's number: the name itself, or what lookup returns.
func number(name string, lookup func() (string, error)) (uint32, error) {
	id, err := strconv.ParseUint(name, 10, 32)
	if err == nil {
		return uint32(id), nil
	}
	text, err := lookup()
	if err != nil {
		return 0, err
	}
	id, err = strconv.ParseUint(text, 10, 32)
	return uint32(id), err
}

// check refuses a mode with which the socket is useless. The accounts are looked up when phosd
// starts, because they need not exist where a file is checked.
func (a Access) check() error {
	if a.Mode&0o600 != 0o600 {
		return &SettingError{
			"access.mode", fmt.Sprintf("%04o", uint32(a.Mode)),
			"root must be able to read and write: 0600 at least",
		}
	}
	return nil
}
