package record

import "strings"

// Prefixes of keys.
const (
	LaunchPrefix = "launches/"
	NodePrefix   = "nodes/"
	// ControllerPrefix begins the keys of controllers.
	ControllerPrefix = "controllers/"
	// ClusterKey is the one object about the cluster itself.
	ClusterKey = "cluster"
)

// LaunchKey returns the key of a launch.
func LaunchKey(id string) string { return LaunchPrefix + id }

// NodeKey returns the key of a node.
func NodeKey(name string) string { return NodePrefix + name }

// NodeName returns the name in a node's key.
func NodeName(key string) string { return strings.TrimPrefix(key, NodePrefix) }

// ControllerKey returns the key of a controller.
func ControllerKey(name string) string { return ControllerPrefix + name }

// ControllerName returns the name in a controller's key.
func ControllerName(key string) string { return strings.TrimPrefix(key, ControllerPrefix) }

// CAKey is the object with the cluster's CA and its keys. Only controllers read it.
const CAKey = "ca"

// JoinTokenKey returns the key of the record of a token by which nodes join.
func JoinTokenKey(id string) string { return JoinTokenPrefix + id }

// UserTokenKey returns the key of the record of a user's token.
func UserTokenKey(id string) string { return UserTokenPrefix + id }

// Prefixes of keys of tokens.
const (
	JoinTokenPrefix = "tokens/join/"
	UserTokenPrefix = "tokens/user/"
)
