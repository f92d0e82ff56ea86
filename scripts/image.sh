# shellcheck shell=bash
# The OCI image of phosd: a bare root of this distribution with the packages, written without a
# registry or a container engine.

# package_image [DEBS]: writes a file that is an OCI layout and that "docker load" takes, too. What
# the packages depend on comes from the archive, or from a repository of need_debs.
package_image() {
	local tree=$CACHE/package/image layout=$CACHE/package/oci SOURCE_DATE_EPOCH layer config
	SOURCE_DATE_EPOCH=$(package_epoch)
	rm -rf "$tree" "$layout"
	mkdir -p "$tree" "$layout/blobs/sha256"
	cp -a "$(root_dir "$(os VERSION_CODENAME)")/." "$tree"
	image_install "$tree" "$@"
	layer=$(LC_ALL=C tar -C "$tree" --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime -cf - . |
		image_blob "$layout")
	rm -rf "$tree"
	config=$(image_config "$layer" | image_blob "$layout")
	image_index "$layout" "$layer" "$config"
	tar -C "$layout" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf "$DIST/phosd-oci.tar" .
	rm -rf "$layout"
}

# image_install TREE [DEBS]: the packages with what they depend on, without what apt leaves.
image_install() {
	local tree=$1 conf=
	cp "$DIST"/*.deb "$tree/tmp/"
	if [ $# = 2 ]; then
		cp -a "$2" "$tree/srv/debs"
		conf=/srv/debs/apt.conf
	fi
	APT_CONFIG=$conf DEBIAN_FRONTEND=noninteractive chroot "$tree" sh -euc 'apt-get update
		apt-get install -y --no-install-recommends /tmp/*.deb
		apt-get purge -y --auto-remove systemd procps
		apt-get clean'
	rm -rf "$tree/srv/debs"
	find "$tree/usr/share/doc" ! -type d ! -name copyright -delete
	rm -rf "$tree"/usr/share/{man,locale,info}/*
	rm -rf "$tree"/tmp/*.deb "$tree"/var/lib/apt/lists/* "$tree"/var/cache/{apt,ldconfig,debconf}/* "$tree"/var/log/*.log \
		"$tree"/var/log/apt "$tree"/var/lib/dpkg/*-old "$tree/etc/resolv.conf"
	: >"$tree/etc/machine-id"
}

# image_blob LAYOUT: keeps standard input as a blob, and prints its digest.
image_blob() {
	local digest
	cat >"$1/blob"
	digest=$(sha256sum "$1/blob" | cut -d' ' -f1)
	mv "$1/blob" "$1/blobs/sha256/$digest"
	echo "$digest"
}

# image_config LAYER: how a container of the image runs.
image_config() {
	local created
	created=$(TZ=UTC date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	cat <<-EOF
		{"architecture": "$(dpkg --print-architecture)", "os": "linux", "created": "$created",
		 "config": {
		  "Entrypoint": ["/usr/bin/phosd"],
		  "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
		  "StopSignal": "SIGTERM",
		  "Volumes": {"/var/lib/phos": {}},
		  "Labels": {
		   "org.opencontainers.image.title": "phosd",
		   "org.opencontainers.image.description": "GPU checkpoint daemon of phos",
		   "org.opencontainers.image.version": "$(package_version)",
		   "org.opencontainers.image.revision": "$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || true)",
		   "org.opencontainers.image.licenses": "Apache-2.0"}},
		 "rootfs": {"type": "layers", "diff_ids": ["sha256:$1"]},
		 "history": [{"created": "$created", "created_by": "./build.sh package"}]}
	EOF
}

# image_index LAYOUT LAYER CONFIG: the files that say what the blobs are: index.json for OCI,
# manifest.json for "docker load".
image_index() {
	local layout=$1 layer=$2 config=$3 manifest size=() blob
	for blob in "$config" "$layer"; do size+=("$(stat -c %s "$layout/blobs/sha256/$blob")"); done
	manifest=$(image_blob "$layout" <<-EOF
		{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:$config", "size": ${size[0]}},
		 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": "sha256:$layer", "size": ${size[1]}}]}
	EOF
	)
	echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
	cat >"$layout/index.json" <<-EOF
		{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
		 {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:$manifest",
		  "size": $(stat -c %s "$layout/blobs/sha256/$manifest"),
		  "annotations": {"io.containerd.image.name": "docker.io/library/phosd:latest", "org.opencontainers.image.ref.name": "latest"}}]}
	EOF
	echo "[{\"Config\": \"blobs/sha256/$config\", \"RepoTags\": [\"phosd:latest\"], \"Layers\": [\"blobs/sha256/$layer\"]}]" >"$layout/manifest.json"
}
