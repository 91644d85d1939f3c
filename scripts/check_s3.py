"""Drives `deltafin setup` and `deltafin verify` against a bucket on loopback. Called by scripts/check-s3."""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from urllib.parse import parse_qsl, quote, unquote

import boto3
from moto.iam.access_control import IAMRequestBase
from moto.server import ThreadedMotoServer

PROGRAM, CHECKPOINT = os.path.abspath(sys.argv[1]), sys.argv[2]
BUCKET, PREFIX, PUBLIC = "weights", "k3/micro 1", "open-weights"
SOURCE = f"s3://{BUCKET}/{PREFIX}/"


CALCULATE = IAMRequestBase._calculate_signature


def calculate_signature(request):
    """As moto does it, for the query as it was sent: moto undoes its percent signs, which nobody signed."""
    path, _, query = request._path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    request._path = quote(unquote(path)) + ("?" + query if query else "")
    return CALCULATE(request)


IAMRequestBase._calculate_signature = calculate_signature
logging.getLogger("werkzeug").setLevel(logging.ERROR)


def checkpoint_files():
    """Name and bytes of what a checkpoint consists of."""
    names = [name for name in sorted(os.listdir(CHECKPOINT))
             if not name.startswith("golden") and name != "README.md"]
    return {name: open(os.path.join(CHECKPOINT, name), "rb").read() for name in names}


FILES = checkpoint_files()


class Bucket:
    """A server with a private and a public bucket, and a user who may read the first."""

    def __init__(self):
        self.server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.server.start()
        self.endpoint = "http://%s:%d" % self.server.get_host_and_port()
        self.s3 = self.client("s3", "setup", "setup")
        self.fill()
        iam = self.client("iam", "setup", "setup")
        iam.create_user(UserName="reader")
        allowed = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]}
        iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(allowed))
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        self.key, self.secret = key["AccessKeyId"], key["SecretAccessKey"]

    def client(self, service, key, secret):
        return boto3.client(service, endpoint_url=self.endpoint, region_name="us-east-1",
                            aws_access_key_id=key, aws_secret_access_key=secret)

    def fill(self):
        self.s3.create_bucket(Bucket=BUCKET)
        self.s3.create_bucket(Bucket=PUBLIC, ACL="public-read")
        for name, content in FILES.items():
            self.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}", Body=content)
            self.s3.put_object(Bucket=PUBLIC, Key=name, Body=content, ACL="public-read")
        # Neither is part of the checkpoint.
        self.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/below/config.json", Body=b"{}")
        self.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX} and more", Body=b"")

    def checks_signatures(self, does):
        """From here on, or no longer."""
        body = b"0" if does else b"inf"
        urllib.request.urlopen(urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth", data=body,
            headers={"Content-Type": "text/plain"})).read()


class Place:
    """A folder, and an environment without anything of this machine's."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.home = tempfile.mkdtemp()

    def at(self, name):
        return os.path.join(self.home, name)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("AWS_", "DELTAFIN_", "HF_")) and "proxy" not in name.lower()}
        return kept | {"HOME": self.home, "AWS_ENDPOINT_URL": self.bucket.endpoint} | more

    def keyed(self, secret=None):
        return self.environment(AWS_ACCESS_KEY_ID=self.bucket.key,
                                AWS_SECRET_ACCESS_KEY=secret or self.bucket.secret)

    def start(self, *args, env=None):
        return subprocess.Popen([PROGRAM, *args], env=env or self.keyed(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *args, env=None):
        """Exit code, output, what was said."""
        process = self.start(*args, env=env)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


def whole(folder, files=FILES):
    for name, content in files.items():
        assert open(os.path.join(folder, name), "rb").read() == content, name
    extra = set(os.listdir(folder)) - set(files) - {".deltafin"}
    assert not extra, extra


def done(run):
    code, out, err = run
    assert code == 0, (code, out, err)
    return json.loads(out.splitlines()[-1])


def refused(run, *words):
    code, out, err = run
    line = err.splitlines()[-1]
    assert code == 1 and all(word in line for word in words), (code, out, err)


def whole_at_once(place):
    folder = place.at("whole")
    ended = done(place.run("setup", "--source", SOURCE, "--model", folder, "--json"))
    assert ended["received"] == sum(map(len, FILES.values())), ended
    whole(folder)
    damaged = os.path.join(folder, "model-00005-of-000012.safetensors")
    with open(damaged, "r+b") as shard:
        shard.seek(-5, os.SEEK_END)
        shard.write(b"!")
    report = done(place.run("verify", folder, "--deep", "--repair", "--json"))
    assert report["received"] == report["damage"][0]["bytes"], report
    whole(folder)


def proven(folder, name):
    """Whether a file is all here and only lacks its name."""
    notes = os.path.join(folder, ".deltafin", name + ".map")
    return os.path.exists(notes) and open(notes).read().endswith("\nproven\n")


def killed(place, folder):
    """A setup that was killed after a few files."""
    setup = place.start("setup", "--source", SOURCE, "--model", folder, "--limit-rate", "2M", "--jobs", "2")
    while not os.path.exists(os.path.join(folder, "model-00002-of-000012.safetensors")):
        assert setup.poll() is None, setup.communicate()
        time.sleep(0.005)
    setup.kill()
    setup.communicate()
    return sum(os.path.getsize(os.path.join(folder, name)) for name in FILES
               if os.path.exists(os.path.join(folder, name)))


def killed_and_continued(place):
    folder = place.at("killed")
    here = killed(place, folder)
    ended = done(place.run("setup", "--source", SOURCE, "--model", folder, "--json"))
    assert ended["received"] <= sum(map(len, FILES.values())) - here, (ended, here)
    whole(folder)


def replaced_in_between(place):
    """A file that another one takes the place of is never a mixture of both."""
    folder = place.at("replaced")
    killed(place, folder)
    last = "model-00012-of-000012.safetensors"
    begun = [name for name in FILES if os.path.exists(os.path.join(folder, name + ".part"))
             and not proven(folder, name)]
    files = dict(FILES)
    for name in [*begun, last]:
        files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
        place.bucket.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}", Body=files[name])
    place.bucket.checks_signatures(True)
    done(place.run("setup", "--source", SOURCE, "--model", folder, "--json"))
    whole(folder, files)


def without_the_right(place):
    folder = place.at("refused")
    setup = ("setup", "--source", SOURCE, "--model", folder)
    refused(place.run(*setup, env=place.keyed("wrong")), "403", "AWS_SECRET_ACCESS_KEY")
    half = place.environment(AWS_ACCESS_KEY_ID="half")
    refused(place.run(*setup, env=half), "SecretAccessKey", "AWS_")
    nowhere = place.keyed() | {"AWS_ENDPOINT_URL": "nowhere"}
    refused(place.run(*setup, env=nowhere), "AWS_ENDPOINT_URL is 'nowhere'")
    empty = ("setup", "--model", folder, "--source", f"s3://{BUCKET}/empty/")
    refused(place.run(*empty), "no config.json", "prefix")
    missing = ("setup", "--model", folder, "--source", "s3://missing/")
    refused(place.run(*missing), "404", "check the bucket")


def without_a_key(place):
    folder = place.at("public")
    env = place.environment()
    done(place.run("setup", "--source", f"s3://{PUBLIC}", "--model", folder, "--json", env=env))
    whole(folder)


def main():
    bucket = Bucket()
    place = Place(bucket)
    try:
        bucket.checks_signatures(True)
        for check in [whole_at_once, killed_and_continued, without_the_right]:
            check(place)
            print("ok:", check.__name__)
        bucket.checks_signatures(False)
        for check in [without_a_key, replaced_in_between]:
            check(place)
            print("ok:", check.__name__)
    finally:
        shutil.rmtree(place.home)


main()
