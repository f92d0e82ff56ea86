# shellcheck shell=bash
# The first process of a host. It ends processes that lost their parents, and the whole host when
# its standard input is closed.
# init.sh PID [FLAGS...]: pids begin above PID; the flags are those of unshare for time namespaces.
read -r _ # until this process is in its cgroups
# shellcheck disable=SC2016 # for the inner shell
exec unshare --cgroup "${@:2}" bash -c '
	mount --make-rprivate / && mount -n -t proc proc /proc && echo "$1" >/proc/sys/kernel/ns_last_pid && echo ready
	while read -r _; do :; done' init "$1"
