# Sourced by env.sh and scripts/web: what is fetched, with which certificates, and how often it is tried.

# All caches in the clone: uv links what it installs from its cache, which takes one file system.
export UV_CACHE_DIR=${UV_CACHE_DIR:-$tools/cache/uv} PIP_CACHE_DIR=${PIP_CACHE_DIR:-$tools/cache/pip}
export npm_config_cache=${npm_config_cache:-$tools/cache/npm}

# The system's store of certificates: a proxy that looks into TLS has its CA there. What is set wins.
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
  if [ -r "$bundle" ]; then
    export PIP_CERT=${PIP_CERT:-$bundle} NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$bundle}
    break
  fi
done
unset bundle

# Three tries: a network hiccup is no reason to fail. A certificate stays wrong, though.
retry() {
  local try said
  for try in 1 2 3; do
    if said=$("$@" 2>&1 >/dev/null); then
      [ -z "$said" ] || say "$said"
      return 0
    fi
    say "$said"
    case $said in *UnknownIssuer* | *[Cc]ertificate* | *CERTIFICATE* | *_CERT_* | *ISSUER_CERT*)
      say "The server's certificate is not trusted here, as behind a proxy that looks into TLS.
Add the proxy's CA to the system's store, or set SSL_CERT_FILE, PIP_CERT and NODE_EXTRA_CA_CERTS to its file."
      return 1 ;;
    esac
    [ "$try" = 3 ] || { say "That failed; trying again in $((try * 3)) s"; sleep $((try * 3)); }
  done
  return 1
}
