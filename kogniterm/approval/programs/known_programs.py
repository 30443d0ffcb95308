"""The programs KogniTerm knows: one line each, by what it reads, writes and runs.

`names: base detail; action options…; action options…` and four blanks to continue a line. A line
`program:verb` is for one subcommand.

Bases for operands: `read` (files whose content is read), `list` (paths that are looked at, not
into), `pattern` (a pattern, then files), `text` (means nothing to the machine), `none` (an operand
would change something), `write` (files created or changed), `verbs WORD…` and `subcommands WORD…`
(these only read, others ask), `ask KIND` and `danger KIND` (a reason of `basic_rules.KINDS`),
`patterns NAME` (`word_patterns` decides); any other base is a handler of `table.HANDLERS`.

Actions of options: `value` and `text` (take a harmless value), `plain` (harmless), `write`, `read`,
`run`, `folder` (their value is a file, a program, a folder), `ask`, `code`, `network`, `danger`,
`pattern` (takes the place of the first operand), `recursive`; `warn` asks like `ask`, but a file of
that name could do little harm. With a trailing `=` an action takes a value too. `*` stands for
every option that the line does not name. Sources: the programs' manual pages (GNU coreutils 9.1,
util-linux 2.38, procps 4 and others).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kogniterm.approval.analysis.command_options import Rules, parse_table

TABLE = """
# --- what reads, and the shell's own commands
:: text
cat rev sum tsort: read
tac: read; value s separator
nl: read; value b d f h i l n s v w
expand unexpand: read; value t tabs
fmt: read; value w p g width goal prefix
cksum: read; value a algorithm
od: read; value A j N S t address-radix skip-bytes read-bytes format
hexdump hd: read; value e n s; read f
strings: binutils; value n t e T s bytes radix encoding target output-separator
size readelf: binutils
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum crc32: read
shasum: read; value a algorithm
cmp: read; value i n bytes ignore-initial
comm: read; value output-delimiter
join: read; value t o e a v 1 2 j
look: read; value t terminate
fold: read; value w width
head: read; value n c lines bytes
tail: read; value n c s lines bytes sleep-interval pid
wc: read; read files0-from
cut: read; value d f c b fields bytes characters delimiter output-delimiter
paste: read; value d delimiters
column: read; value s c o N R H E O W T n l r i p separator output-separator table-columns
    table-hide table-right table-order table-wrap table-truncate table-name output-width
pr: read; value h l w o D N W header length width indent date-format page-width
base32 base64 basenc: read; value w wrap; write o output
sort: read; value k t S key field-separator buffer-size batch-size parallel; write o output; ask= T
    temporary-directory; run compress-program; read files0-from random-source
uniq: uniq; value f s w skip-fields skip-chars check-chars
shuf: read; value n i input-range head-count; pattern e echo; write o output; read random-source
bc: read
tr seq expr basename dirname pathchk factor numfmt: text; value s f w d suffix separator format
    field from to padding
true false sleep yes pwd logname tty arch nproc whoami groups id uptime hostid: text; value n s
echo printf: echo; value v
test [: patterns test
cal ncal units: text; value m A B
realpath readlink namei lsattr getcap: list; value v relative-to relative-base
getfacl: list
ls dir vdir lsd: list; value I w T ignore width tabsize hide block-size time-style sort format color
exa eza: list; value s L I t sort level ignore-glob time
tree: list; value L P I H T filelimit charset sort timefmt; write o; ask R
stat: list; value c f printf format
file: read; value F e P separator exclude parameter; read f m files-from magic-file; warn C z Z
    compile uncompress
du: list; value d B t max-depth block-size threshold exclude time-style; read X exclude-from
    files0-from
df: list; value t x B type exclude-type block-size output
grep egrep fgrep zgrep zegrep zfgrep bzgrep xzgrep: pattern; value A B C D d m after-context
    before-context context max-count include exclude exclude-dir binary-files color colour label
    directories devices; pattern e regexp; read f file exclude-from; recursive r R recursive
    dereference-recursive
rg: pattern; value A B C E M T d g j m r t after-context before-context context encoding glob iglob
    max-count max-columns max-depth replace sort sortr threads type type-not color colors engine
    max-filesize type-add; pattern e regexp; read f file ignore-file; run pre hostname-bin; ask z
    search-zip; recursive hidden uu uuu no-ignore
ag ack: pattern; value A B G m ignore ignore-dir depth type; run pager; ask z search-zip
zcat gzcat bzcat xzcat lzcat zstdcat lz4cat lzmacat: read
zdiff zcmp bzdiff xzdiff: read
diff: read; value U C W L I x S F unified context width label ignore-matching-lines exclude
    starting-file palette color tabsize horizon-lines; read from-file to-file; recursive r recursive
diff3 wdiff colordiff: read; run diff-program
sdiff: read; write o output; run diff-program
jq: jq; value indent; pattern arg argjson; read f from-file slurpfile rawfile L
yq: yq; value o p I output-format input-format indent; ask i inplace in-place s split-exp; read
    from-file
xmllint: read; value xpath encode pattern maxmem; write o output; network load-trace catalogs valid
    noent loaddtd dtdattr postvalid xinclude noxincludenode; ask shell sax insert; read schema
    relaxng dtdvalid schematron
which type whereis: text
whatis apropos: text; ask C config-file
hash: none; ask r d p
ps: ps; value o p u t C G U g s format pid user sort ppid tty
pgrep: text; value u U G P t g s; read F pidfile
pidof pstree: text; value u U G P t g s
top: text; value n d p u U o
free: text; value s c seconds count
pmap: text; value A c n N; read C
dircolors: read
sar: text; value u s e i; read f; ask o
vmstat iostat mpstat: text
pidstat: text; value C G p T; ask e
w: text; value n
who users: read
last lastb: text; value n p s t since until time-format; read f file
lastlog: text; value b t u; ask C clear S set R root
lsof: text; value i p u c a d g r; write D
uname lscpu lsmem lsmod lsns lsipc lslogins lslocks modinfo: text; value e p o s d output
lspci: text; value s d; plain v k n t m mm nn vv vvv b D x xxx P; read i p; ask *
lsusb: text; value s d; plain v t V version; read D; ask *
lsblk findmnt: text; value o t n s L U output
blkid: text; value o s t; ask c g
nvidia-smi: none; value i d l q query-gpu format id loop display; write f filename; ask r gpu-reset
    pm pl ac
sensors: text; ask s set
getconf: text
iconv: read; value f t from-code to-code; write o output
xxd: uniq; value l s c g o n
ss: text; value f A family query; ask K kill; write D diag; read F filter
netstat: text; value A
getent: patterns
ipcs: text; value i
identify: media; value format; plain verbose ping quiet version help; ask *
mediainfo: media; read Inform Output; plain f Full version Version help Help; ask *
ffprobe: media; ask= f; value v loglevel show_entries print_format of select_streams i; plain
    hide_banner show_format show_streams show_chapters show_packets show_frames show_data
    count_frames count_packets pretty unit sexagesimal prefix byte_binary_prefix version formats
    codecs; ask *
pdfinfo pdffonts: read; value f l
zipinfo: read
diffstat: read; value p n D w f N; write o e
lsdiff: read; value p n D w
csvclean: write
csvlook csvcut csvstat csvsort: read; value c d e q y delimiter quotechar encoding columns
    snifflimit
csvgrep: read; value c d e q m r y delimiter quotechar encoding columns match regex snifflimit; read
    f file
ldconfig: verbs -p --print-cache -V --version; plain p print-cache V version; ask *
tokei: list; value e exclude o output s sort t type c columns; plain C f files hidden no-ignore V
    version h help; ask *
cloc: list; value exclude-dir exclude-ext include-lang include-ext exclude-lang; plain by-file
    by-file-by-lang json yaml csv xml md quiet hide-rate progress-rate vcs version help; ask *
scc: list; value exclude-dir i include-ext f format s sort; plain by-file no-cocomo w wide version
    help; ask *
dmesg: none; value l f s level facility time-format since until buffer-size; read F file K
    kmsg-file; ask C c D E n clear read-clear console-off console-on console-level
journalctl: none; value n u p S U t g o since until unit priority identifier grep output user-unit
    lines facility; read D file directory root image; danger vacuum-size= vacuum-time=
    vacuum-files=; write cursor-file; ask rotate relinquish-var flush sync setup-keys update-catalog
bat batcat: read; value l r H m language line-range highlight-line style theme color wrap
    terminal-width tabs paging; run pager lessopen; ask= config-file; ask build clear
    generate-config-file
less more most: pager; ask= o O log-file LOG-FILE k lesskey-file lesskey-src lesskey-content; value
    t T p
lsb_release sw_vers: text
pygmentize: read; value l f O P F; write o; code x
hexyl: read; value n s c
fd fdfind: fd; value e t d E S j o c max-depth min-depth depth type extension exclude size color
    threads changed-within changed-before owner format max-results base-directory; run x X exec
    exec-batch
locate mlocate plocate: text; value n l d limit database
nm objdump: binutils; run plugin
c++filt addr2line: binutils; value e
mountpoint dirs times fc-list locale numastat systemd-detect-virt banner figlet: text; value f o c
dpkg-query: text; value f showformat admindir
swapon: none; ask a p all
jobs: text; ask x
compgen: text; run C; ask F V; code W
help: text
ulimit: patterns
umask: text
cd pushd popd: cd
date: date; value d date rfc-3339 v; read f file r reference; danger= s set
hostname: none; ask b F file
domainname dnsdomainname nisdomainname: none; ask F file
env: env; value u unset C chdir S split-string
printenv: printenv
history: history
find: find
sed gsed: sed; value l line-length; pattern e expression; read f file
awk gawk mawk nawk: awk
xargs: xargs; value n L P s d E I max-args max-procs delimiter max-chars max-lines; read a arg-file;
    ask o open-tty process-slot-var
tar bsdtar gtar: tar; plain t list d diff compare O to-stdout r append u update A catenate
    concatenate create extract get; value f file b blocking-factor H format K starting-file L
    tape-length N newer after-date newer-mtime V label exclude strip-components transform xform
    owner group mode mtime sort pax-option level quoting-style suffix record-size one-top-level C
    directory; read T files-from X exclude-from; write g listed-incremental index-file volno-file;
    ask remove-files delete unlink-first recursive-unlink; run I use-compress-program F info-script
    new-volume-script to-command checkpoint-action rsh-command rmt-command
read mapfile readarray getopts: readvar
shopt: shopt
set: set
unset: unset
export declare typeset local readonly: declare
let: let
wait: text; ask p
break continue return exit: text
shift: shift
exec: exec
man info: man
tldr: patterns network
cowsay: text; ask f
apt-cache: text; ask o c option config-file
mount ifconfig service crontab sysctl: patterns
ip: patterns
route arp: none
systemctl: patterns; value t type p property n lines o output state; network H host; ask= M root
timedatectl localectl hostnamectl loginctl: verbs status list list-timezones show list-sessions
    list-users user-status session-status list-locales list-keymaps timesync-status; value p
    property n lines o output; plain a all l full value no-pager no-legend json static transient
    pretty; ask *
docker podman nerdctl: patterns docker
kubectl: patterns cloud
pip pip3: subcommands list show freeze check help; value format path exclude; read r; plain editable
    e not-required user local l exclude-editable verbose v quiet q files f all version V help h
    disable-pip-version-check no-color no-input; ask *
cargo: ask code
go: patterns
dpkg rpm: patterns
screen: patterns screen
apt: verbs list show search policy; plain installed upgradable upgradeable a all-versions n
    names-only f full q quiet; ask *
brew: verbs list leaves config --prefix --version; plain prefix version versions formula cask 1 l r
    t full-name pinned v; ask *
snap: verbs list; plain all color unicode; ask *
flatpak: verbs list info; value columns arch; plain app runtime user system d show-details a all r m
    s c show-ref show-commit show-origin show-size show-metadata; ask *
gem: verbs list environment; value v version; plain l local a all d details i installed no-versions
    versions q quiet; ask *
conda mamba: verbs list info; value n name p prefix; plain e envs json a all export explicit
    revisions full-name c canonical base; ask *
tmux: verbs ls list-sessions list-windows list-panes list-keys; value t T; plain a s N 1; ask *
gpg gpg2: patterns gpg
openssl: patterns
unzip: unzip; value d P I O
gzip gunzip bzip2 bunzip2 zstd unzstd lz4: compress; value S suffix; write o output-dir-flat
    output-dir-mirror trace; read D patch-from files files0 filelist
xz unxz: compress; value S suffix T M; write o output-dir-flat output-dir-mirror trace; read D
    patch-from files files0 filelist
7z 7za 7zr: sevenzip
command builtin: command
nohup setsid unbuffer chronic: wrap
time: wrap; write o output; value f format
stdbuf: wrap; value i o e input output error
nice: wrap; value n adjustment
ionice: wrap; value c n class classdata; ask p P u
chrt: wrap; value T P D; ask p
taskset: wrap; ask p
timeout: wrap; value k s kill-after signal
watch: wrap; value n interval q equexit
flock: wrap; value w timeout E conflict-exit-code
busybox toybox: busybox
coproc: coproc
sudo: sudo; value u g h p C T r t D R U user group chdir host
doas: sudo; value u C
su runuser: sudo; value u g h p C T r t D R U user group chdir host s c
pkexec gosu ssh-keysign newgrp sg setpriv capsh: sudo
parallel: parallel
bash sh dash zsh ksh ash rbash: shell
eval: eval
source .: source
trap: trap
alias: alias
unalias: ask alias
enable bind complete compopt suspend bg fg fc logout: ask builtin
disown: ask stays
tput: text
stty: none; read F file; value a
curl: curl; write o output D dump-header c cookie-jar trace trace-ascii stderr output-dir hsts
    alt-svc etag-save libcurl; value T upload-file K config E cert key netrc-file b cookie d data
    data-raw data-binary data-urlencode F form H header X request u user A user-agent e referer m
    max-time w write-out x proxy json url connect-timeout retry r range resolve cacert U
wget: wget; write O output-document o output-file a append-output P directory-prefix; ask= e
    execute; run use-askpass; value T t U header user password post-data post-file body-file method
    i A R D l
ssh: ssh; value B b c D E e F I i J L l m O o p Q R S W w
strace ltrace: ask code
kill: patterns
killall pkill skill: patterns killall
# --- what changes something
mkdir: write; value m mode
touch: write; value d t date time; read r reference
tee: tee
truncate: truncate; value s size; read r reference
cp: copy; value S suffix backup context sparse; folder t target-directory
mv: move; value S suffix backup; folder t target-directory
install: copy; value m o g mode owner group; folder t target-directory; ask strip-program=
ln: link; value S suffix; folder t target-directory
rm rmdir unlink: rm
shred: shred; value n s
split: split; value a b C l n t suffix-length bytes line-bytes lines number separator
    additional-suffix; run filter
csplit: split; value f prefix b n suffix-format digits
mktemp: mktemp; folder p tmpdir
mkfifo: write; value m mode
mknod: mknod; value m mode
chmod: chmod
chown chgrp: chown
chattr setfacl setcap setfattr: ask permissions
dd: dd
patch: ask edit
dos2unix unix2dos: write
ruff: ruff
black isort autopep8 yapf rustfmt shfmt clang-format: format; value style edition l; ask config
    settings-path plugin config-path settings-file
gofmt goimports: format
zip: zip
ar cpio pax: ask archive
rsync: rsync; run e rsh rsync-path; value f B
rename prename: ask edit
ed ex vi vim nvim nano emacs pico joe micro code subl: ask editor
mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs mke2fs mkswap
    mkdosfs: danger disk
fdisk sfdisk cfdisk gdisk sgdisk parted partprobe wipefs blkdiscard hdparm badblocks lvremove
    vgremove pvremove lvcreate vgcreate pvcreate lvreduce lvresize mdadm cryptsetup zfs zpool btrfs
    dmsetup losetup tune2fs resize2fs e2fsck fsck xfs_repair debugfs: patterns disk
umount swapoff fstrim: ask system
shutdown reboot halt poweroff init telinit kexec killall5: danger power
insmod rmmod modprobe depmod: danger kernel
iptables ip6tables nft ufw firewall-cmd ebtables ipset: patterns firewall
tc ethtool iw iwconfig nmcli rfkill brctl ovs-vsctl wg wg-quick: ask system
useradd userdel usermod groupadd groupdel groupmod adduser deluser addgroup delgroup passwd chpasswd
    chsh chfn vipw visudo gpasswd newusers: danger accounts
setenforce semanage restorecon aa-disable aa-teardown auditctl: danger protection
update-alternatives alternatives update-rc.d chkconfig grub-install update-grub grub-mkconfig
    efibootmgr update-initramfs dracut: ask system
at batch anacron atrm: ask later
systemd-run: ask stays
hwclock ntpdate chronyc: ask system
apt-get aptitude yum dnf zypper pacman apk emerge port xbps-install nix-env nix guix opkg: patterns
    packages
npm pnpm yarn npx pnpx bunx uvx pipx deno bun uv poetry pdm hatch rye: ask code
bundle rake rails composer mix stack cabal dotnet gradle mvn ant sbt lein: ask code
make gmake ninja cmake meson bazel just task scons tox nox pytest jest mocha vitest tsc webpack vite
    eslint prettier rollup: ask code
gcc g++ cc c++ clang clang++ ld as rustc javac ghc tcc nasm gnatmake: ask compile
python python2 python3 pypy pypy3 ipython jupyter perl ruby node nodejs php lua luajit tclsh wish
    expect Rscript R julia java scala kotlin groovy swift ghci erl elixir iex guile racket sbcl
    clisp octave gnuplot pwsh osascript m4 dc: interpreter
irb pry gdb lldb jshell: ask code
nc ncat netcat socat telnet: netcat
ftp sftp tftp lftp scp rcp rlogin rsh mosh autossh sshfs ssh-copy-id ssh-keyscan: transfer
ssh-keygen ssh-add ssh-agent: ask keys
dig nslookup host whois ping ping6 traceroute traceroute6 tracepath mtr nmap masscan arping fping
    hping3 iperf iperf3 speedtest speedtest-cli tcpdump tshark wireshark rdate: patterns network
aria2c httpie http https xh lynx w3m links elinks axel youtube-dl yt-dlp rclone s3cmd gsutil restic
    borg duplicity: patterns network
aws gcloud az gh glab hub heroku doctl flyctl fly vercel netlify terraform tofu pulumi ansible
    ansible-playbook helm oc eksctl minikube kind k9s argocd flux vault consul nomad packer vagrant:
    patterns cloud
docker-compose podman-compose: ask containers
psql mysql mysqldump mariadb sqlite3 mongo mongosh redis-cli cqlsh influx clickhouse-client pg_dump
    pg_restore createdb dropdb mysqladmin: patterns database
mail mailx sendmail mutt msmtp swaks: ask mail
crictl ctr nsenter unshare chroot systemd-nspawn lxc lxc-attach machinectl firejail bwrap: ask
    namespace
script asciinema: ask records
xdg-open open gio gnome-open sensible-browser x-www-browser firefox chromium google-chrome: ask
    opens
notify-send wall write mesg xmessage zenity: ask notifies
xclip xsel pbcopy pbpaste wl-copy wl-paste: ask clipboard
gsettings dconf defaults xfconf-query xrandr setxkbmap xmodmap loadkeys localedef: ask system
pass secret-tool keyring security keepassxc-cli op bw lpass age sops gopass: patterns secrets
logger: ask system
renice schedtool cpulimit prlimit: ask process
perf bpftrace bcc-tools sysdig ftrace trace-cmd: ask code
# --- git
git: git
git:status git:describe git:rev-parse git:ls-tree git:name-rev git:merge-base git:cherry
    git:show-ref git:for-each-ref git:show-branch git:count-objects git:version git:check-ignore
    git:check-attr git:check-mailmap git:diff-pairs git:verify-pack git:get-tar-commit-id
    git:patch-id git:check-ref-format git:stripspace git:column: read
git:log git:diff git:show git:whatchanged git:diff-tree git:diff-index git:diff-files git:range-diff
    git:blame git:annotate git:shortlog git:rev-list: read; write output; ask ext-diff textconv
    show-signature; read contents; text n S G U L since until after before author committer grep
    format pretty date max-count skip diff-filter unified encoding inter-hunk-context
    word-diff-regex glob exclude src-prefix dst-prefix
git:ls-files: read; read X exclude-from; text x exclude exclude-per-directory with-tree format
git:grep: read; run O open-files-in-pager; ask textconv ext-grep; read f
git:cat-file: read; ask textconv filters
git:stash git:reflog: form; write output; ask ext-diff textconv show-signature; read contents; text
    n S G U L since until after before author committer grep format pretty date max-count skip
    diff-filter unified encoding inter-hunk-context word-diff-regex glob exclude src-prefix
    dst-prefix; value m message F file C author date sort format contains points-at u b B c get x
    exec upload-pack receive-pack t template initial-branch
git:*: form; value m message F file C author date sort format contains points-at u b B c get x exec
    upload-pack receive-pack t template initial-branch
"""


@functools.cache
def _table() -> Mapping[str, Rules]:
    return parse_table(TABLE)


def rules_for(program: str) -> Rules | None:
    """The rules of a program, or of `program:verb`; None for one that is not known."""
    return _table().get(program)
